#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_MAKE_BF16_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_MAKE_BF16_BRANCH_H_

#include <cstdint>
#include <memory>

#include "worker/trainer/model/encoder/bf16_branch.h"
#include "worker/trainer/model/linear/lte_head_runs.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Make the branches of an encoder layer whose stream is bfloat16: in bfloat16
// where BranchForm says so, else in float32, widened. `head_runs` as in
// MakeLinear.
std::unique_ptr<Bf16Branch> MakeBf16AttentionBranch(
    const Plan& plan, int64_t layer, const LteHeadRuns* head_runs);
std::unique_ptr<Bf16Branch> MakeBf16FfnBranch(const Plan& plan, int64_t layer,
                                              const LteHeadRuns* head_runs);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_MAKE_BF16_BRANCH_H_
