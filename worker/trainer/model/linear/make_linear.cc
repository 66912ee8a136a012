// Chooses the class of a linear layer by its form in the configuration.
#include "worker/trainer/model/linear/make_linear.h"

#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/linear/adapter_linear.h"
#include "worker/trainer/model/linear/cola_linear.h"
#include "worker/trainer/model/linear/contracted_linear.h"
#include "worker/trainer/model/linear/dense_linear.h"
#include "worker/trainer/model/linear/pruned_linear.h"
#include "worker/trainer/model/linear/tt_linear.h"
#include "worker/trainer/model/plan/layer_path.h"

namespace comera::trainer {

std::unique_ptr<Linear> MakeLinear(const Plan& plan, const std::string& key,
                                   int64_t max_rows, const std::string& scratch,
                                   const LteHeadRuns* head_runs) {
  const Factorisation& f = plan.config->layers_by_name.at(key);
  for (const FactorisableLayer& layer : FactorisableLayers(*plan.config)) {
    if (layer.key != key) continue;
    if (!f.dense()) {
      if (IsPruned(f)) return std::make_unique<PrunedLinear>(plan, layer.name);
      const kernels::TtChoice choice =
          ChooseLayerPath(*plan.config, layer, f, max_rows);
      if (choice.path == kernels::TtPath::kPrefixSuffix) {
        return std::make_unique<TtLinear>(plan, layer, f, max_rows, scratch);
      }
      return std::make_unique<ContractedLinear>(plan, layer, f, choice.ends,
                                                max_rows, scratch);
    }
    switch (f.low_rank.kind) {
      case LowRank::Kind::kLora:
      case LowRank::Kind::kLte:
        return std::make_unique<AdapterLinear>(plan, layer.name, f.low_rank,
                                               max_rows, head_runs);
      case LowRank::Kind::kCola:
        return std::make_unique<ColaLinear>(plan, layer.name, f.low_rank,
                                            max_rows);
      case LowRank::Kind::kNone:
      case LowRank::Kind::kGalore:
        return std::make_unique<DenseLinear>(plan, layer.name);
    }
  }
  return nullptr;
}

int64_t FactorRank(const Plan& plan, const std::string& key, int64_t max_rows) {
  const Factorisation& f = plan.config->layers_by_name.at(key);
  if (f.dense() || IsPruned(f)) return 0;
  for (const FactorisableLayer& layer : FactorisableLayers(*plan.config)) {
    if (layer.key != key) continue;
    if (ChooseLayerPath(*plan.config, layer, f, max_rows).path !=
        kernels::TtPath::kPrefixSuffix) {
      return 0;
    }
    return TtLinear::FactorRank(*plan.backend,
                                f.ranks[f.input_modes.size() - 1]);
  }
  return 0;
}

}  // namespace comera::trainer
