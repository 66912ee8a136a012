// The learning-rate schedule: linear warm-up, then decay.
#include "worker/trainer/optimizer/learning_rate.h"

#include <algorithm>
#include <cmath>

namespace comera::trainer {

double LearningRateScale(const v1::OptimizerSpec& optimizer,
                         int64_t total_steps, int64_t step) {
  const int64_t warmup_steps = optimizer.warmup_steps();
  if (step < warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  const v1::OptimizerSpec::Decay decay = optimizer.decay();
  const auto total = static_cast<double>(total_steps);
  auto begin = static_cast<double>(warmup_steps);
  if (decay == v1::OptimizerSpec::WSD) {
    begin = std::max(begin, (1 - optimizer.decay_fraction()) * total);
  }
  if (decay == v1::OptimizerSpec::NONE || total <= begin) return 1;
  const double done = std::clamp(
      (static_cast<double>(step) - begin) / (total - begin), 0.0, 1.0);
  // The part of the way from min_scale to 1 that is left.
  const double left = decay == v1::OptimizerSpec::COSINE
                          ? 0.5 * (1 + std::cos(M_PI * done))
                          : 1 - done;
  return optimizer.min_scale() + (1 - optimizer.min_scale()) * left;
}

}  // namespace comera::trainer
