// Configures small decoders and draws their weights.
#include "tests/worker/trainer/generate/random_decoder.h"

#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {
namespace {

// Sums over inputs and ranks neither fade nor explode, and no softmax is so
// sharp that it shows rounding.
float LargestEntry(const Parameter& p) {
  if (absl::StrContains(p.name, "embedding")) return 1.2f;
  if (p.kind == ParameterKind::kCore) return 0.7f;
  if (p.shape.size() < 2) return 0.4f;
  return 2 / std::sqrt(static_cast<float>(p.shape[0]));
}

}  // namespace

ModelConfig DecoderConfig(const DecoderCase& c, int64_t length) {
  ModelConfig config;
  config.family = v1::ModelSpec::CAUSAL_LM;
  config.architecture = c.architecture;
  config.vocabulary = 31;
  config.layers = 2;
  config.hidden = 24;
  config.heads = 4;
  config.kv_heads = c.kv_heads;
  config.ffn = 40;
  config.length = length;
  config.max_positions = length + 2;
  config.segments = 0;
  config.tie_output = c.tied;
  config.gate_silu = c.gate_silu;
  config.rope_theta = 100;
  config.dropout = 0;
  config.layer_norm_epsilon = 1e-5f;
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    Factorisation& f = config.layers_by_name[layer.key];
    if (c.rank > 0 && layer.embedding) {
      // 32 rows for 31 words.
      f = {{4, 2, 4}, {2, 3, 4}, {5, 4}};
    } else if (c.rank > 0) {
      f.input_modes = AutoModes(layer.inputs, 2, false);
      f.output_modes = AutoModes(layer.outputs, 2, layer.in_head);
      f.ranks = {4, c.rank, 3};
      f.silu = c.silu && MayActivate(layer);
    } else if (!layer.embedding && !layer.in_head) {
      f.low_rank = c.low_rank;
    }
  }
  return config;
}

std::vector<float> DecoderParameters(const DecoderCase& c,
                                     const ModelConfig& config) {
  std::mt19937 random(11);
  const ModelLayout layout = MakeModelLayout(config);
  std::vector<float> values;
  for (const Parameter& p : layout.parameters.parameters()) {
    const bool rank = p.kind == ParameterKind::kRank;
    const bool scale = rank || absl::EndsWith(p.name, ".gamma");
    for (int64_t i = 0; i < p.size; ++i) {
      const float share = static_cast<float>(random() >> 8) * 0x1p-24f;
      values.push_back((scale ? 1.0f : 0.0f) +
                       LargestEntry(p) * (2 * share - 1));
    }
  }
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    if (c.pruned.count(layer.key) == 0) continue;
    for (const Parameter& p : layout.parameters.parameters()) {
      if (!absl::StartsWith(p.name, layer.name + ".rank.")) continue;
      for (int64_t i = 0; i < p.size; ++i) values[p.offset + i] = 0;
    }
  }
  return values;
}

}  // namespace comera::trainer
