// Checks the options of an objective.
#include "worker/trainer/objective/objective.h"

#include "common/status_macros.h"

namespace comera::trainer {

absl::Status Objective::Enqueue(const float*, kernels::ConstVector,
                                kernels::Vector) {
  return absl::FailedPreconditionError("this objective asks the host");
}

absl::StatusOr<ObjectiveStep> Objective::Measure(
    kernels::ConstVector parameters) {
  ASSIGN_OR_RETURN(const SizeMeasure::Sizes sizes,
                   measure_->Measure(parameters));
  return StepOf(sizes);
}

ObjectiveStep Objective::StepOf(const float* norms) const {
  return StepOf(measure_->SizesOf(norms));
}

ObjectiveStep Objective::StepOf(const SizeMeasure::Sizes& sizes) const {
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
