// Chooses how the feed-forward layer of one encoder layer is computed.
#include "worker/trainer/model/encoder/make_ffn_branch.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/contraction/ffn_cost.h"
#include "worker/trainer/model/encoder/bf16_ffn_branch.h"
#include "worker/trainer/model/encoder/rank_space_ffn_branch.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/linear/make_linear.h"
#include "worker/trainer/model/plan/layer_path.h"
#include "worker/trainer/model/transformer/hidden_ffn_branch.h"
#include "worker/trainer/model/transformer/pruned_branch.h"

namespace comera::trainer {

std::unique_ptr<Branch> MakeFfnBranch(const Plan& plan, int64_t layer,
                                      const LteHeadRuns* head_runs) {
  const auto linear = [&](const char* part) {
    return MakeLinear(plan, absl::StrCat("layers.", layer, ".ffn_", part),
                      plan.max_rows, absl::StrCat("ffn.", part), head_runs);
  };
  const std::string down_key = absl::StrCat("layers.", layer, ".ffn_down");
  if (IsPruned(plan.config->layers_by_name.at(down_key))) {
    return std::make_unique<PrunedBranch>(linear("down"));
  }
  std::unique_ptr<Linear> up = linear("up"), down = linear("down");
  const RankSpaceLinear* up_factors = up->rank_space();
  const RankSpaceLinear* down_factors = down->rank_space();
  if (up_factors != nullptr && down_factors != nullptr &&
      kernels::RankSpaceFfnPays({plan.max_rows, plan.config->ffn,
                                 up_factors->rank(), down_factors->rank()},
                                plan.config->machine)) {
    return std::make_unique<RankSpaceFfnBranch>(plan, std::move(up),
                                                std::move(down));
  }
  if (Bf16FfnBranch::Allowed(plan, *up, *down)) {
    return std::make_unique<Bf16FfnBranch>(plan, layer,
                                           kernels::Activation::kGelu,
                                           std::move(up), std::move(down));
  }
  return std::make_unique<HiddenFfnBranch>(
      plan, layer, kernels::Activation::kGelu, /*gate=*/nullptr, std::move(up),
      std::move(down));
}

}  // namespace comera::trainer
