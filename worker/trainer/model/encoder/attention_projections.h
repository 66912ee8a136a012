#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_ATTENTION_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_ATTENTION_BRANCH_H_

#include <cstdint>
#include <memory>

#include "worker/trainer/model/encoder/branch.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// output(attention(query(x), key(x), value(x))), the branch of an attention
// block.
using AttentionBranch = Branch;

struct AttentionProjections {
  std::unique_ptr<Linear> query, key, value, output;
};

// Only the bias where the output layer is gone; in rank space where all four
// projections have that face and it costs less
// (kernels/contraction/attention_cost.h), else with heads in memory.
std::unique_ptr<AttentionBranch> MakeAttentionBranch(const Plan& plan,
                                                     int64_t layer);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_ATTENTION_BRANCH_H_
