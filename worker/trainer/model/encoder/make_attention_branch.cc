// Chooses how the attention of one encoder layer is computed.
#include "worker/trainer/model/encoder/make_attention_branch.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/contraction/attention_cost.h"
#include "kernels/gpu_limits.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/encoder/rank_space_attention_branch.h"
#include "worker/trainer/model/plan/layer_path.h"
#include "worker/trainer/model/transformer/attention_projections.h"
#include "worker/trainer/model/transformer/ordinary_attention_branch.h"
#include "worker/trainer/model/transformer/pruned_branch.h"

namespace comera::trainer {
namespace {

bool RankSpacePays(const Plan& plan, const AttentionProjections& p) {
  const RankSpaceLinear* const layers[] = {
      p.query->rank_space(), p.key->rank_space(), p.value->rank_space(),
      p.output->rank_space()};
  for (const RankSpaceLinear* layer : layers) {
    if (layer == nullptr) return false;
  }
  // A device's kernels hold no wider vectors.
  if (!plan.backend->in_host_memory()) {
    for (const RankSpaceLinear* layer : layers) {
      if (layer->rank() + 1 > kernels::kMostAttentionWidth) return false;
    }
  }
  const ModelConfig& config = *plan.config;
  return kernels::RankSpaceAttentionPays(
      {{plan.max_batch, plan.max_rows, config.length, config.heads,
        config.hidden / config.heads},
       layers[0]->rank(),
       layers[1]->rank(),
       layers[2]->rank(),
       layers[3]->rank()});
}

}  // namespace

std::unique_ptr<Branch> MakeAttentionBranch(const Plan& plan, int64_t layer,
                                            const LteHeadRuns* head_runs) {
  const std::string output_key = absl::StrCat("layers.", layer, ".output");
  if (IsPruned(plan.config->layers_by_name.at(output_key))) {
    return std::make_unique<PrunedBranch>(
        MakeAttentionOutput(plan, layer, head_runs));
  }
  AttentionProjections projections =
      MakeAttentionProjections(plan, layer, head_runs);
  if (RankSpacePays(plan, projections)) {
    return std::make_unique<RankSpaceAttentionBranch>(plan, layer,
                                                      std::move(projections));
  }
  return std::make_unique<OrdinaryAttentionBranch>(plan, layer,
                                                   std::move(projections));
}

}  // namespace comera::trainer
