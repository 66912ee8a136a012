// Counts the parameters of a model: as exported, and as a dense one.
#include "worker/trainer/model/plan/model_size.h"

#include <algorithm>

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {

std::vector<int64_t> AliveRanks(const ParameterLayout& layout,
                                const TensorisedLayer& layer,
                                const float* parameters, float threshold) {
  std::vector<int64_t> alive;
  for (int bond : layer.bonds) {
    const float* d = parameters + layout[bond].offset;
    alive.push_back(std::count_if(d, d + layout[bond].size,
                                  [&](float x) { return x > threshold; }));
  }
  return alive;
}

int64_t TensorisedSize(const TensorisedLayer& layer,
                       const std::vector<int64_t>& inner_ranks) {
  int64_t size = 0;
  const size_t order = layer.modes.size();
  for (size_t i = 0; i < order; ++i) {
    const int64_t left = i == 0 ? 1 : inner_ranks[i - 1];
    const int64_t right = i + 1 == order ? 1 : inner_ranks[i];
    if (left == 0 || right == 0) return 0;
    size += left * layer.modes[i] * right;
  }
  return size;
}

int64_t FixedSize(const ParameterLayout& layout) {
  int64_t size = 0;
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.kind == ParameterKind::kCore ||
        parameter.kind == ParameterKind::kRank || parameter.training_only) {
      continue;
    }
    size += parameter.size;
  }
  return size;
}

int64_t CountedModelSize(const ParameterLayout& layout,
                         const std::vector<TensorisedLayer>& layers,
                         const float* parameters, float threshold) {
  int64_t size = FixedSize(layout);
  for (const TensorisedLayer& layer : layers) {
    size +=
        TensorisedSize(layer, AliveRanks(layout, layer, parameters, threshold));
  }
  return size;
}

int64_t DenseParameterCount(const ModelConfig& config) {
  ModelConfig dense = config;
  for (auto& [key, factorisation] : dense.layers_by_name) factorisation = {};
  return MakeModelLayout(dense).parameters.size();
}

}  // namespace comera::trainer
