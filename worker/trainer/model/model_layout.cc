#include "worker/trainer/model/model_layout.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/layer_table.h"

namespace comera::trainer {
namespace {

class LayoutBuilder {
 public:
  explicit LayoutBuilder(const ModelConfig& config) : config_(config) {}

  // Cores and bonds, or the dense weight; then the bias of a linear layer.
  void AddLayer(const FactorisableLayer& layer) {
    const Factorisation& f = config_.layers_by_name.at(layer.key);
    if (f.dense()) {
      Dense(layer.name + ".weight", {layer.inputs, layer.outputs},
            layer.in_head);
    } else {
      AddCores(layer, f);
    }
    if (!layer.embedding) {
      Dense(layer.name + ".bias", {layer.outputs}, layer.in_head);
    }
  }

  void AddNorm(const std::string& name, bool in_head) {
    Dense(name + ".gamma", {config_.hidden}, in_head);
    Dense(name + ".beta", {config_.hidden}, in_head);
  }

  void Dense(const std::string& name, std::vector<int64_t> shape,
             bool in_head) {
    layout_.parameters.Add(name, std::move(shape), ParameterKind::kDense,
                           in_head);
  }

  ModelLayout Take() { return std::move(layout_); }

 private:
  void AddCores(const FactorisableLayer& layer, const Factorisation& f) {
    TensorisedLayer result;
    result.name = layer.name;
    result.layer_class = layer.layer_class;
    result.ranks.push_back(1);
    result.ranks.insert(result.ranks.end(), f.ranks.begin(), f.ranks.end());
    result.ranks.push_back(1);
    std::vector<int64_t> modes = f.input_modes;
    if (!layer.embedding) {
      modes.insert(modes.end(), f.output_modes.begin(), f.output_modes.end());
    }
    const size_t order = modes.size();
    for (size_t i = 0; i < order; ++i) {
      std::vector<int64_t> shape = {result.ranks[i], modes[i]};
      if (layer.embedding) {
        shape.push_back(f.output_modes[i]);
        modes[i] *= f.output_modes[i];
      }
      shape.push_back(result.ranks[i + 1]);
      result.cores.push_back(layout_.parameters.Add(
          absl::StrCat(layer.name, ".core.", i), std::move(shape),
          ParameterKind::kCore, layer.in_head));
    }
    for (size_t i = 0; i + 1 < order; ++i) {
      result.bonds.push_back(layout_.parameters.Add(
          absl::StrCat(layer.name, ".rank.", i), {result.ranks[i + 1]},
          ParameterKind::kRank, layer.in_head));
    }
    result.modes = std::move(modes);
    layout_.layers.push_back(std::move(result));
  }

  const ModelConfig& config_;
  ModelLayout layout_;
};

}  // namespace

ModelLayout MakeModelLayout(const ModelConfig& config) {
  LayoutBuilder builder(config);
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    builder.AddLayer(layer);
    const std::string& name = layer.name;
    if (layer.embedding) {
      builder.Dense("encoder.embedding.position",
                    {config.max_positions, config.hidden}, false);
      builder.Dense("encoder.embedding.segment",
                    {config.segments, config.hidden}, false);
      builder.AddNorm("encoder.embedding.norm", false);
    } else if (layer.layer_class == "ffn_down") {
      builder.AddNorm(name.substr(0, name.size() - 4) + "norm", false);
    } else if (layer.layer_class == "attention" &&
               name.substr(name.size() - 7) == ".output") {
      builder.AddNorm(name.substr(0, name.size() - 6) + "norm", false);
    } else if (name == "head.transform") {
      builder.AddNorm("head.norm", true);
    } else if (name == "head.fc1") {
      builder.Dense("head.fc2.weight", {config.hidden, config.classes}, true);
      builder.Dense("head.fc2.bias", {config.classes}, true);
    }
  }
  return builder.Take();
}

}  // namespace comera::trainer
