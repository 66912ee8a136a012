// Lists the phases of a job by their first step.
#include "worker/trainer/planning/phase_table.h"

#include <algorithm>

namespace comera::trainer {

int64_t PartsOfBatch(const v1::JobSpec& spec) {
  return std::max(1, spec.training().accumulate());
}

PhaseTable::PhaseTable(const v1::JobSpec& spec) {
  int64_t first_step = 0;
  for (const v1::Phase& phase : spec.training().phases()) {
    phases_.push_back({first_step, phase.max_length(), phase.batch_size()});
    first_step += phase.steps();
  }
  if (phases_.empty()) {
    phases_.push_back(
        {0, spec.data().max_length(), spec.training().batch_size()});
  }
}

const TrainingPhase& PhaseTable::At(int64_t step) const {
  size_t i = phases_.size() - 1;
  while (i > 0 && step < phases_[i].first_step) --i;
  return phases_[i];
}

}  // namespace comera::trainer
