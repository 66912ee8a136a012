#ifndef COMERA_WORKER_TRAINER_MODEL_DECODER_MAKE_DECODER_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_DECODER_MAKE_DECODER_BRANCH_H_

#include <cstdint>
#include <memory>

#include "worker/trainer/model/linear/lte_head_runs.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/branch.h"

namespace comera::trainer {

// Make the branches of a decoder's block, with queries, keys, values and the
// hidden layer in memory: causal attention, and the feed-forward layer of the
// architecture. A branch whose last layer was pruned is that layer's bias;
// null: the branch is 0, as where it has no bias or a LLaMA's values, gate or
// `up` were pruned. `head_runs` is what MakeLinear needs for LTE.
std::unique_ptr<Branch> MakeDecoderAttention(
    const Plan& plan, int64_t layer, const LteHeadRuns* head_runs = nullptr);
std::unique_ptr<Branch> MakeDecoderFfn(const Plan& plan, int64_t layer,
                                       const LteHeadRuns* head_runs = nullptr);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_DECODER_MAKE_DECODER_BRANCH_H_
