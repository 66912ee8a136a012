// Finds a model's layers and parameters for folding.
#include "worker/trainer/generate/model_parts.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "worker/trainer/model/plan/layer_path.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::ConstVector;

ModelParts::ModelParts(const ModelConfig& config, const float* parameters,
                       kernels::Backend* backend)
    : config_(config),
      backend_(backend),
      on_backend_(parameters),
      layout_(MakeModelLayout(config)),
      layers_(FactorisableLayers(config)) {}

absl::StatusOr<ModelParts> ModelParts::Create(const ModelConfig& config,
                                              const float* parameters,
                                              kernels::Backend* backend) {
  ModelParts parts(config, parameters, backend);
  RETURN_IF_ERROR(backend->Synchronize());
  if (!backend->in_host_memory()) {
    parts.copy_.resize(parts.layout_.parameters.size());
    RETURN_IF_ERROR(backend->CopyToHost(
        parts.copy_.data(), parameters,
        parts.layout_.parameters.size() * int64_t{sizeof(float)}));
    RETURN_IF_ERROR(backend->Synchronize());
  }
  return parts;
}

const FactorisableLayer& ModelParts::Layer(const std::string& key) const {
  return *std::find_if(
      layers_.begin(), layers_.end(),
      [&](const FactorisableLayer& layer) { return layer.key == key; });
}

bool ModelParts::IsPruned(const std::string& key) const {
  return trainer::IsPruned(config_.layers_by_name.at(key));
}

LayerFactors ModelParts::Factors(const std::string& key) const {
  LayerFactors factors = FactorsOf(config_, layout_, Layer(key),
                                   copy_.empty() ? on_backend_ : copy_.data());
  if (!factors.two || IsPruned(key) || RankOf(key) > 0) return factors;
  LayerFactors product;
  product.a = std::move(factors).Multiplied();
  return product;
}

absl::StatusOr<FoldedLinear> ModelParts::Linear(const std::string& key) const {
  const FactorisableLayer& layer = Layer(key);
  if (IsStoredWhole(config_.layers_by_name.at(key))) {
    return FoldedLinear(backend_,
                        ConstMatrix(Vector(layer.name + ".weight").data,
                                    layer.inputs, layer.outputs),
                        /*transposed=*/false, BiasOf(key));
  }
  return FoldedLinear::Upload(backend_, Factors(key), HostBiasOf(key));
}

int64_t ModelParts::RankOf(const std::string& key) const {
  const FactorisableLayer& layer = Layer(key);
  const Factorisation& f = config_.layers_by_name.at(key);
  int64_t rank = 0;
  if (f.low_rank.kind == LowRank::Kind::kCola) rank = f.low_rank.rank;
  if (!f.dense()) rank = f.ranks[f.input_modes.size() - 1];
  if (f.silu_between_factors()) return rank;
  return rank * (layer.inputs + layer.outputs) < layer.inputs * layer.outputs
             ? rank
             : 0;
}

ConstVector ModelParts::Vector(const std::string& name) const {
  const int index = layout_.parameters.Find(name);
  if (index < 0) return ConstVector();
  const Parameter& p = layout_.parameters[index];
  return ConstVector(on_backend_ + p.offset, p.size);
}

ConstVector ModelParts::BiasOf(const std::string& key) const {
  return Vector(Layer(key).name + ".bias");
}

std::vector<float> ModelParts::HostBiasOf(const std::string& key) const {
  const int index = layout_.parameters.Find(Layer(key).name + ".bias");
  if (index < 0) return {};
  const Parameter& p = layout_.parameters[index];
  const float* const at =
      (copy_.empty() ? on_backend_ : copy_.data()) + p.offset;
  return {at, at + p.size};
}

}  // namespace comera::trainer
