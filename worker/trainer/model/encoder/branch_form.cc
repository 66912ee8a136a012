// Chooses how the halves of encoder layers are computed.
#include "worker/trainer/model/encoder/branch_form.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/contraction/attention_cost.h"
#include "kernels/contraction/ffn_cost.h"
#include "kernels/gpu_limits.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/linear/bf16_factors.h"
#include "worker/trainer/model/linear/make_linear.h"
#include "worker/trainer/model/plan/layer_path.h"

namespace comera::trainer {
namespace {

// Ranks of the factors of these layers, 0 where a layer has none.
std::vector<int64_t> Ranks(const Plan& plan, int64_t layer,
                           const std::vector<const char*>& parts) {
  std::vector<int64_t> ranks;
  for (const char* part : parts) {
    ranks.push_back(FactorRank(plan, absl::StrCat("layers.", layer, ".", part),
                               plan.max_rows));
  }
  return ranks;
}

bool Pruned(const Plan& plan, int64_t layer, const char* part) {
  return IsPruned(plan.config->layers_by_name.at(
      absl::StrCat("layers.", layer, ".", part)));
}

bool AllowsBf16(const Plan& plan, const std::vector<int64_t>& ranks,
                int64_t width) {
  return plan.backend->has_bf16() && width % Bf16Factors::kVector == 0 &&
         plan.config->hidden % Bf16Factors::kVector == 0 &&
         std::all_of(ranks.begin(), ranks.end(), [](int64_t rank) {
           return rank % Bf16Factors::kVector == 0;
         });
}

// `ranks` are those of the query, key, value and output projections.
bool RankSpacePays(const Plan& plan, const std::vector<int64_t>& ranks) {
  // A device's kernels hold no wider vectors.
  if (!plan.backend->in_host_memory() &&
      *std::max_element(ranks.begin(), ranks.end()) + 1 >
          kernels::kMostAttentionWidth) {
    return false;
  }
  const ModelConfig& config = *plan.config;
  return kernels::RankSpaceAttentionPays(
      {{plan.max_batch, plan.max_rows, config.length, config.heads,
        config.hidden / config.heads},
       ranks[0],
       ranks[1],
       ranks[2],
       ranks[3]});
}

}  // namespace

BranchForm AttentionForm(const Plan& plan, int64_t layer) {
  if (Pruned(plan, layer, "output")) return BranchForm::kPruned;
  const std::vector<int64_t> ranks =
      Ranks(plan, layer, {"query", "key", "value", "output"});
  if (*std::min_element(ranks.begin(), ranks.end()) == 0) {
    return BranchForm::kOrdinary;
  }
  if (RankSpacePays(plan, ranks)) return BranchForm::kRankSpace;
  return AllowsBf16(plan, ranks, plan.config->hidden) ? BranchForm::kBf16
                                                      : BranchForm::kOrdinary;
}

BranchForm FfnForm(const Plan& plan, int64_t layer) {
  if (Pruned(plan, layer, "ffn_down")) return BranchForm::kPruned;
  const std::vector<int64_t> ranks = Ranks(plan, layer, {"ffn_up", "ffn_down"});
  if (ranks[0] == 0 || ranks[1] == 0) return BranchForm::kOrdinary;
  if (kernels::RankSpaceFfnPays(
          {plan.max_rows, plan.config->ffn, ranks[0], ranks[1]},
          plan.config->machine)) {
    return BranchForm::kRankSpace;
  }
  return AllowsBf16(plan, ranks, plan.config->ffn) ? BranchForm::kBf16
                                                   : BranchForm::kOrdinary;
}

bool HasBf16Stream(const Plan& plan) {
  if (!plan.backend->has_bf16()) return false;
  int64_t found = 0;
  for (int64_t i = 0; i < plan.config->layers; ++i) {
    found += AttentionForm(plan, i) == BranchForm::kBf16;
    found += FfnForm(plan, i) == BranchForm::kBf16;
  }
  return found > 0 && found >= plan.config->layers;
}

}  // namespace comera::trainer
