#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_FFN_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_FFN_BRANCH_H_

#include <cstdint>
#include <memory>

#include "worker/trainer/model/encoder/branch.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// down(gelu(up(x))), the branch of a feed-forward block: only the bias where
// the lower layer is gone; in rank space where both layers have that face and
// it costs less; else with the hidden layer in memory.
std::unique_ptr<Branch> MakeFfnBranch(const Plan& plan, int64_t layer);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_FFN_BRANCH_H_
