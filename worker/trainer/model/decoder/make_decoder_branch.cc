// Makes the branches of a decoder's block from the layers that are left.
#include "worker/trainer/model/decoder/make_decoder_branch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/linear/make_linear.h"
#include "worker/trainer/model/plan/layer_path.h"
#include "worker/trainer/model/transformer/attention_projections.h"
#include "worker/trainer/model/transformer/hidden_ffn_branch.h"
#include "worker/trainer/model/transformer/ordinary_attention_branch.h"
#include "worker/trainer/model/transformer/pruned_branch.h"

namespace comera::trainer {
namespace {

using kernels::Activation;

// Whether the layer layers.LAYER.PART was pruned.
bool Pruned(const Plan& plan, int64_t layer, const char* part) {
  return IsPruned(plan.config->layers_by_name.at(
      absl::StrCat("layers.", layer, ".", part)));
}

}  // namespace

std::unique_ptr<Branch> MakeDecoderAttention(const Plan& plan, int64_t layer,
                                             const LteHeadRuns* head_runs) {
  const bool no_output = Pruned(plan, layer, "output");
  if (plan.config->llama() && (no_output || Pruned(plan, layer, "value"))) {
    return nullptr;
  }
  if (no_output) {
    return std::make_unique<PrunedBranch>(
        MakeAttentionOutput(plan, layer, head_runs));
  }
  return std::make_unique<OrdinaryAttentionBranch>(
      plan, layer, MakeAttentionProjections(plan, layer, head_runs));
}

std::unique_ptr<Branch> MakeDecoderFfn(const Plan& plan, int64_t layer,
                                       const LteHeadRuns* head_runs) {
  const ModelConfig& config = *plan.config;
  const auto linear = [&](const char* part) {
    return MakeLinear(plan, absl::StrCat("layers.", layer, ".ffn_", part),
                      plan.max_rows, absl::StrCat("ffn.", part), head_runs);
  };
  const bool no_down = Pruned(plan, layer, "ffn_down");
  if (!config.llama()) {
    if (no_down) return std::make_unique<PrunedBranch>(linear("down"));
    return std::make_unique<HiddenFfnBranch>(plan, layer, Activation::kGeluTanh,
                                             /*gate=*/nullptr, linear("up"),
                                             linear("down"));
  }
  if (no_down || Pruned(plan, layer, "ffn_gate") ||
      Pruned(plan, layer, "ffn_up")) {
    return nullptr;
  }
  return std::make_unique<HiddenFfnBranch>(
      plan, layer, config.gate_silu ? Activation::kSilu : Activation::kIdentity,
      linear("gate"), linear("up"), linear("down"));
}

}  // namespace comera::trainer
