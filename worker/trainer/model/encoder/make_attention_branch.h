#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_MAKE_ATTENTION_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_MAKE_ATTENTION_BRANCH_H_

#include <cstdint>
#include <memory>

#include "worker/trainer/model/linear/lte_head_runs.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/branch.h"

namespace comera::trainer {

// Makes the branch of an attention block,
// output(attention(query(x), key(x), value(x))): only the bias where the output
// layer was pruned; in rank space where all four projections have factors and
// it costs less (kernels/contraction/attention_cost.h); else with heads in
// memory. `head_runs` is what MakeLinear needs for LTE.
std::unique_ptr<Branch> MakeAttentionBranch(
    const Plan& plan, int64_t layer, const LteHeadRuns* head_runs = nullptr);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_MAKE_ATTENTION_BRANCH_H_
