#ifndef COMERA_WORKER_TRAINER_OPTIMIZER_LEARNING_RATE_H_
#define COMERA_WORKER_TRAINER_OPTIMIZER_LEARNING_RATE_H_

#include <cstdint>

#include "comera/v1/job.pb.h"

namespace comera::trainer {

// The factor on all learning rates of the step after `step` steps, of
// `total_steps` planned: (step + 1) / warmup_steps during linear warm-up, then
// 1, falling as `decay` says so that it would reach min_scale at total_steps.
// WSD stays at 1 until the last decay_fraction of total_steps, or until the end
// of the warm-up if that is later. `optimizer` has its defaults filled in.
double LearningRateScale(const v1::OptimizerSpec& optimizer,
                         int64_t total_steps, int64_t step);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OPTIMIZER_LEARNING_RATE_H_
