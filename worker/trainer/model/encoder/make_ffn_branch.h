#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_MAKE_FFN_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_MAKE_FFN_BRANCH_H_

#include <cstdint>
#include <memory>

#include "worker/trainer/model/linear/lte_head_runs.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/branch.h"

namespace comera::trainer {

// Makes the branch of a feed-forward block, down(gelu(up(x))): only the bias
// where the lower layer was pruned; in rank space where both layers have
// factors and it costs less (kernels/contraction/ffn_cost.h); else with the
// hidden layer in memory. `head_runs` is what MakeLinear needs for LTE.
std::unique_ptr<Branch> MakeFfnBranch(const Plan& plan, int64_t layer,
                                      const LteHeadRuns* head_runs = nullptr);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_MAKE_FFN_BRANCH_H_
