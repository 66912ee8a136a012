// Makes the attention branch of one encoder layer.
#include "worker/trainer/model/encoder/make_attention_branch.h"

#include "worker/trainer/model/encoder/branch_form.h"
#include "worker/trainer/model/encoder/rank_space_attention_branch.h"
#include "worker/trainer/model/transformer/attention_projections.h"
#include "worker/trainer/model/transformer/ordinary_attention_branch.h"
#include "worker/trainer/model/transformer/pruned_branch.h"

namespace comera::trainer {

std::unique_ptr<Branch> MakeAttentionBranch(const Plan& plan, int64_t layer,
                                            const LteHeadRuns* head_runs) {
  switch (AttentionForm(plan, layer)) {
    case BranchForm::kPruned:
      return std::make_unique<PrunedBranch>(
          MakeAttentionOutput(plan, layer, head_runs));
    case BranchForm::kRankSpace:
      return std::make_unique<RankSpaceAttentionBranch>(
          plan, layer, MakeAttentionProjections(plan, layer, head_runs));
    case BranchForm::kBf16:
    case BranchForm::kOrdinary:
      break;
  }
  return std::make_unique<OrdinaryAttentionBranch>(
      plan, layer, MakeAttentionProjections(plan, layer, head_runs));
}

}  // namespace comera::trainer
