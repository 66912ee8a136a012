#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_ATTENTION_BLOCK_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_ATTENTION_BLOCK_H_

#include <cstdint>

#include "worker/trainer/model/encoder/residual_block.h"
#include "worker/trainer/model/linear/lte_head_runs.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// y = LayerNorm(x + dropout(output(attention(query(x), key(x), value(x))))).
class AttentionBlock : public ResidualBlock {
 public:
  // `head_runs`: see MakeAttentionBranch.
  AttentionBlock(const Plan& plan, int64_t layer, const LteHeadRuns* head_runs);
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_ATTENTION_BLOCK_H_
