// Lays out the parameters of every layer of a configuration.
#include "worker/trainer/model/plan/model_layout.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

void AddDense(const std::string& name, std::vector<int64_t> shape, bool in_head,
              ModelLayout* layout) {
  layout->parameters.Add(name, std::move(shape), ParameterKind::kDense,
                         in_head);
}

void AddNorm(const std::string& name, int64_t width, bool in_head,
             ModelLayout* layout) {
  AddDense(name + ".gamma", {width}, in_head, layout);
  AddDense(name + ".beta", {width}, in_head, layout);
}

void AddCores(const FactorisableLayer& layer, const Factorisation& f,
              ModelLayout* layout) {
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
    result.cores.push_back(layout->parameters.Add(
        absl::StrCat(layer.name, ".core.", i), std::move(shape),
        ParameterKind::kCore, layer.in_head));
  }
  for (size_t i = 0; i + 1 < order; ++i) {
    result.bonds.push_back(layout->parameters.Add(
        absl::StrCat(layer.name, ".rank.", i), {result.ranks[i + 1]},
        ParameterKind::kRank, layer.in_head));
  }
  if (!f.dense_tokens.empty()) {
    const auto tokens = static_cast<int64_t>(f.dense_tokens.size());
    layout->parameters.SetTable(layout->parameters.Add(
        layer.name + ".dense_rows", {tokens, layer.outputs},
        ParameterKind::kDense, layer.in_head));
  }
  result.modes = std::move(modes);
  if (f.silu) {
    result.nonlinear_bond = static_cast<int>(f.input_modes.size()) - 1;
  }
  layout->layers.push_back(std::move(result));
}

bool FreezesWeight(const LowRank& low) {
  return low.kind == LowRank::Kind::kLora || low.kind == LowRank::Kind::kLte;
}

// A and B, under names that begin so. LTE's go into the weight in the end.
void AddFactors(const FactorisableLayer& layer, const LowRank& low,
                const std::string& prefix, ParameterKind kind,
                ModelLayout* layout) {
  const int64_t width = low.heads * low.rank;
  const int a =
      layout->parameters.Add(absl::StrCat(layer.name, ".", prefix, "a"),
                             {layer.inputs, width}, kind, layer.in_head);
  const int b =
      layout->parameters.Add(absl::StrCat(layer.name, ".", prefix, "b"),
                             {width, layer.outputs}, kind, layer.in_head);
  if (low.kind != LowRank::Kind::kLte) return;
  layout->parameters.SetTrainingOnly(a);
  layout->parameters.SetTrainingOnly(b);
}

void AddWeight(const FactorisableLayer& layer, const LowRank& low,
               ModelLayout* layout) {
  if (low.kind == LowRank::Kind::kCola || FreezesWeight(low)) {
    AddFactors(layer, low, "", ParameterKind::kDense, layout);
    return;
  }
  const int weight = layout->parameters.Add(
      layer.name + ".weight", {layer.inputs, layer.outputs},
      ParameterKind::kDense, layer.in_head,
      low.kind == LowRank::Kind::kGalore ? low.rank : 0);
  if (layer.embedding) layout->parameters.SetTable(weight);
}

// Norms end each half of an encoder's blocks. A DLRM is its layers alone.
void AddEncoderOrDlrm(const ModelConfig& config,
                      const std::vector<FactorisableLayer>& layers,
                      ModelLayout* layout) {
  const int64_t d = config.hidden;
  for (const FactorisableLayer& layer : layers) {
    AddLayer(layer, config.layers_by_name.at(layer.key), layout);
    const std::string& name = layer.name;
    if (layer.layer_class == "embedding") {
      AddDense("encoder.embedding.position", {config.max_positions, d}, false,
               layout);
      AddDense("encoder.embedding.segment", {config.segments, d}, false,
               layout);
      AddNorm("encoder.embedding.norm", d, false, layout);
    } else if (absl::EndsWith(name, ".ffn.down") ||
               absl::EndsWith(name, ".attention.output")) {
      AddNorm(name.substr(0, name.rfind('.')) + ".norm", d, false, layout);
    } else if (name == "head.transform") {
      AddNorm("head.norm", d, true, layout);
      if (config.tie_output) {
        AddDense("head.output.bias", {config.vocabulary}, true, layout);
      }
    } else if (name == "head.fc1") {
      AddDense("head.fc2.weight", {d, config.classes}, true, layout);
      AddDense("head.fc2.bias", {config.classes}, true, layout);
    }
  }
}

// Norms begin each half of a decoder's blocks, and the head.
void AddDecoder(const ModelConfig& config,
                const std::vector<FactorisableLayer>& layers,
                ModelLayout* layout) {
  const int64_t d = config.hidden;
  const auto add_norm = [&](const std::string& name, bool in_head) {
    AddDense(name + ".gamma", {d}, in_head, layout);
    if (!config.llama()) AddDense(name + ".beta", {d}, in_head, layout);
  };
  std::string part;  // what the layer before belongs to
  for (const FactorisableLayer& layer : layers) {
    const std::string before = part;
    part = layer.name.substr(0, layer.name.rfind('.'));
    if (!layer.embedding && part != before) {
      add_norm(part + ".norm", layer.in_head);
    }
    AddLayer(layer, config.layers_by_name.at(layer.key), layout);
    if (layer.embedding && !config.llama()) {
      AddDense("decoder.embedding.position", {config.max_positions, d}, false,
               layout);
    }
  }
  if (config.tie_output) add_norm("head.norm", true);
}

}  // namespace

void AddFrozen(const FactorisableLayer& layer,
               const Factorisation& factorisation, ModelLayout* layout) {
  if (!FreezesWeight(factorisation.low_rank)) return;
  layout->parameters.Add(layer.name + ".weight", {layer.inputs, layer.outputs},
                         ParameterKind::kFrozen, layer.in_head);
  if (factorisation.low_rank.kind != LowRank::Kind::kLte) return;
  AddFactors(layer, factorisation.low_rank, "previous_", ParameterKind::kFrozen,
             layout);
}

void AddLayer(const FactorisableLayer& layer,
              const Factorisation& factorisation, ModelLayout* layout) {
  if (factorisation.dense()) {
    AddWeight(layer, factorisation.low_rank, layout);
  } else {
    AddCores(layer, factorisation, layout);
  }
  if (!layer.embedding && layer.bias) {
    AddDense(layer.name + ".bias", {layer.outputs}, layer.in_head, layout);
  }
}

ModelLayout MakeModelLayout(const ModelConfig& config) {
  ModelLayout layout;
  const std::vector<FactorisableLayer> layers = FactorisableLayers(config);
  if (config.causal()) {
    AddDecoder(config, layers, &layout);
  } else {
    AddEncoderOrDlrm(config, layers, &layout);
  }
  for (const FactorisableLayer& layer : layers) {
    AddFrozen(layer, config.layers_by_name.at(layer.key), &layout);
  }
  return layout;
}

}  // namespace comera::trainer
