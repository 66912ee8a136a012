// Makes the feed-forward branch of one encoder layer.
#include "worker/trainer/model/encoder/make_ffn_branch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/encoder/branch_form.h"
#include "worker/trainer/model/encoder/rank_space_ffn_branch.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/linear/make_linear.h"
#include "worker/trainer/model/transformer/hidden_ffn_branch.h"
#include "worker/trainer/model/transformer/pruned_branch.h"

namespace comera::trainer {

std::unique_ptr<Branch> MakeFfnBranch(const Plan& plan, int64_t layer,
                                      const LteHeadRuns* head_runs) {
  const auto linear = [&](const char* part) {
    return MakeLinear(plan, absl::StrCat("layers.", layer, ".ffn_", part),
                      plan.max_rows, absl::StrCat("ffn.", part), head_runs);
  };
  const BranchForm form = FfnForm(plan, layer);
  if (form == BranchForm::kPruned) {
    return std::make_unique<PrunedBranch>(linear("down"));
  }
  std::unique_ptr<Linear> up = linear("up"), down = linear("down");
  if (form == BranchForm::kRankSpace) {
    return std::make_unique<RankSpaceFfnBranch>(plan, std::move(up),
                                                std::move(down));
  }
  return std::make_unique<HiddenFfnBranch>(
      plan, layer, kernels::Activation::kGelu, /*gate=*/nullptr, std::move(up),
      std::move(down));
}

}  // namespace comera::trainer
