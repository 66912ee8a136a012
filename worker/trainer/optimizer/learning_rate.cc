// The learning-rate schedule: linear warm-up, then decay.
#include "worker/trainer/optimizer/learning_rate.h"

#include <algorithm>
#include <cmath>

namespace comera::trainer {

double LearningRateScale(v1::OptimizerSpec::Decay decay, int64_t warmup_steps,
                         int64_t total_steps, int64_t step) {
  if (step < warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  const int64_t decaying = total_steps - warmup_steps;
  if (decay == v1::OptimizerSpec::NONE || decaying <= 0) return 1;
  const double done = std::min(1.0, static_cast<double>(step - warmup_steps) /
                                        static_cast<double>(decaying));
  if (decay == v1::OptimizerSpec::LINEAR) return 1 - done;
  return 0.5 * (1 + std::cos(M_PI * done));
}

}  // namespace comera::trainer
