// Moves what LTE's heads have learnt into the weights.
#include "worker/trainer/model/weights/merged_heads.h"

#include <algorithm>
#include <string>

#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {
namespace {

// sum += factor a b, in double.
void AddProduct(const float* a, const float* b, const FactorisableLayer& layer,
                int64_t width, double factor, std::vector<double>* sum) {
  for (int64_t i = 0; i < layer.inputs; ++i) {
    double* const row = sum->data() + i * layer.outputs;
    for (int64_t k = 0; k < width; ++k) {
      const double left = factor * static_cast<double>(a[i * width + k]);
      const float* const right = b + k * layer.outputs;
      for (int64_t o = 0; o < layer.outputs; ++o) row[o] += left * right[o];
    }
  }
}

bool IsLte(const Factorisation& f) {
  return f.low_rank.kind == LowRank::Kind::kLte;
}

}  // namespace

bool HasHeads(const ModelConfig& config) {
  return std::any_of(config.layers_by_name.begin(), config.layers_by_name.end(),
                     [](const auto& entry) { return IsLte(entry.second); });
}

MergedModel MergeHeads(const ModelConfig& config, const float* parameters) {
  MergedModel merged;
  merged.config = config;
  for (auto& [key, factorisation] : merged.config.layers_by_name) {
    if (IsLte(factorisation)) factorisation.low_rank = {};
  }
  const ParameterLayout from = MakeModelLayout(config).parameters;
  const ParameterLayout to = MakeModelLayout(merged.config).parameters;
  merged.parameters.resize(to.size());
  for (const Parameter& p : to.parameters()) {
    std::copy_n(parameters + from[from.Find(p.name)].offset, p.size,
                merged.parameters.begin() + p.offset);
  }
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    const Factorisation& f = config.layers_by_name.at(layer.key);
    if (!IsLte(f)) continue;
    const LowRank& low = f.low_rank;
    const auto values = [&](const std::string& name) {
      return parameters + from[from.Find(layer.name + name)].offset;
    };
    const int64_t width = low.heads * low.rank;
    const double factor = low.scale / static_cast<double>(low.heads);
    std::vector<double> learnt(layer.inputs * layer.outputs);
    AddProduct(values(".a"), values(".b"), layer, width, factor, &learnt);
    AddProduct(values(".previous_a"), values(".previous_b"), layer, width,
               -factor, &learnt);
    float* const weight =
        merged.parameters.data() + to[to.Find(layer.name + ".weight")].offset;
    for (size_t i = 0; i < learnt.size(); ++i) {
      weight[i] = static_cast<float>(weight[i] + learnt[i]);
    }
  }
  return merged;
}

}  // namespace comera::trainer
