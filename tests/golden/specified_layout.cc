// Lists the parameters of a decoder, layer by layer.

#include "tests/golden/specified_layout.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::golden {
namespace {

using trainer::Factorisation;
using trainer::LowRank;
using trainer::ModelConfig;
using trainer::ParameterKind;
using trainer::ParameterLayout;

constexpr char kWords[] = "decoder.embedding.word";

bool IsGpt2(const ModelConfig& config) {
  return config.architecture == v1::ModelSpec::GPT2;
}

void AddNorm(const ModelConfig& config, const std::string& name,
             ParameterLayout* layout) {
  layout->Add(name + ".gamma", {config.hidden}, ParameterKind::kDense, false);
  if (!IsGpt2(config)) return;
  layout->Add(name + ".beta", {config.hidden}, ParameterKind::kDense, false);
}

// The weight of a layer, dense or in one of the forms of few parameters.
void AddWeight(const Factorisation& f, const std::string& name, bool embedding,
               int64_t inputs, int64_t outputs, ParameterLayout* layout) {
  const auto add = [&](const std::string& part, std::vector<int64_t> shape) {
    layout->Add(name + part, std::move(shape), ParameterKind::kDense, false);
  };
  if (f.low_rank.kind == LowRank::Kind::kCola) {
    add(".a", {inputs, f.low_rank.rank});
    add(".b", {f.low_rank.rank, outputs});
    return;
  }
  if (f.dense()) {
    add(".weight", {inputs, outputs});
    return;
  }
  const CoreModes modes = CoreModesOf(f, embedding);
  const size_t order = modes.rows.size();
  for (size_t i = 0; i < order; ++i) {
    std::vector<int64_t> shape = {i == 0 ? 1 : f.ranks[i - 1], modes.rows[i]};
    if (embedding) shape.push_back(modes.columns[i]);
    shape.push_back(i + 1 == order ? 1 : f.ranks[i]);
    add(absl::StrCat(".core.", i), std::move(shape));
  }
  for (size_t i = 0; i + 1 < order; ++i) {
    add(absl::StrCat(".rank.", i), {f.ranks[i]});
  }
  if (!f.dense_tokens.empty()) {
    add(".dense_rows", {static_cast<int64_t>(f.dense_tokens.size()), outputs});
  }
}

void AddLinear(const ModelConfig& config, const std::string& key,
               const std::string& name, int64_t inputs, int64_t outputs,
               ParameterLayout* layout) {
  AddWeight(config.layers_by_name.at(key), name, false, inputs, outputs,
            layout);
  if (!IsGpt2(config)) return;
  layout->Add(name + ".bias", {outputs}, ParameterKind::kDense, false);
}

}  // namespace

CoreModes CoreModesOf(const Factorisation& f, bool embedding) {
  CoreModes modes = {f.input_modes, f.output_modes};
  if (embedding) return modes;
  modes.rows.insert(modes.rows.end(), f.output_modes.begin(),
                    f.output_modes.end());
  modes.columns.assign(modes.rows.size(), 1);
  return modes;
}

ParameterLayout SpecifiedLayout(const ModelConfig& config) {
  ParameterLayout layout;
  const int64_t d = config.hidden, kv = d / config.heads * config.kv_heads;
  AddWeight(config.layers_by_name.at("embedding"), kWords, true,
            config.vocabulary, d, &layout);
  if (IsGpt2(config)) {
    layout.Add("decoder.embedding.position", {config.max_positions, d},
               ParameterKind::kDense, false);
  }
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string key = absl::StrCat("layers.", i, ".");
    const std::string name = "decoder." + key;
    const auto linear = [&](const std::string& part, const std::string& called,
                            int64_t inputs, int64_t outputs) {
      AddLinear(config, key + part, name + called, inputs, outputs, &layout);
    };
    AddNorm(config, name + "attention.norm", &layout);
    linear("query", "attention.query", d, d);
    linear("key", "attention.key", d, kv);
    linear("value", "attention.value", d, kv);
    linear("output", "attention.output", d, d);
    AddNorm(config, name + "ffn.norm", &layout);
    if (!IsGpt2(config)) linear("ffn_gate", "ffn.gate", d, config.ffn);
    linear("ffn_up", "ffn.up", d, config.ffn);
    linear("ffn_down", "ffn.down", config.ffn, d);
  }
  AddNorm(config, "head.norm", &layout);
  if (!config.tie_output) {
    AddLinear(config, "output", "head.output", d, config.vocabulary, &layout);
  }
  return layout;
}

}  // namespace comera::golden
