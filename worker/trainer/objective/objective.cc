#include "worker/trainer/objective/objective.h"

#include "common/status_macros.h"

namespace comera::trainer {

absl::StatusOr<ObjectiveStep> Objective::Measure(
    kernels::ConstVector parameters) {
  ASSIGN_OR_RETURN(const SizeMeasure::Sizes sizes,
                   measure_->Measure(parameters));
  ObjectiveStep step;
  step.size = options_.fixed_size + sizes.counted;
  step.relaxed_size = options_.fixed_size + sizes.relaxed;
  step.alive_entries = sizes.alive_entries;
  if (sizes.alive_entries > 0) {
    step.mean_alive_entry = sizes.alive_sum / sizes.alive_entries;
  }
  return step;
}

}  // namespace comera::trainer
