#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_FFN_BLOCK_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_FFN_BLOCK_H_

#include <cstdint>

#include "worker/trainer/model/encoder/residual_block.h"
#include "worker/trainer/model/linear/lte_head_runs.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// y = LayerNorm(x + dropout(down(gelu(up(x))))).
class FfnBlock : public ResidualBlock {
 public:
  // `head_runs`: see MakeFfnBranch.
  FfnBlock(const Plan& plan, int64_t layer, const LteHeadRuns* head_runs);
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_FFN_BLOCK_H_
