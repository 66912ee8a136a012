// Renames and reshapes parameters as published checkpoints have them.
#include "tests/worker/trainer/model/weights/published_tensors.h"

#include <cstdint>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {
namespace {

NamedTensor Transposed(const NamedTensor& t) {
  NamedTensor result{{t.shape[1], t.shape[0]}, t.values};
  for (int64_t i = 0; i < t.shape[0]; ++i) {
    for (int64_t j = 0; j < t.shape[1]; ++j) {
      result.values[j * t.shape[0] + i] = t.values[i * t.shape[1] + j];
    }
  }
  return result;
}

// Appends columns (of a vector, entries).
void AppendColumns(const NamedTensor& more, NamedTensor* to) {
  if (to->values.empty()) {
    *to = more;
    return;
  }
  const int64_t width = to->shape.back(), added = more.shape.back();
  const int64_t rows = static_cast<int64_t>(to->values.size()) / width;
  std::vector<float> joined;
  for (int64_t i = 0; i < rows; ++i) {
    joined.insert(joined.end(), to->values.begin() + i * width,
                  to->values.begin() + (i + 1) * width);
    joined.insert(joined.end(), more.values.begin() + i * added,
                  more.values.begin() + (i + 1) * added);
  }
  to->shape.back() += added;
  to->values = std::move(joined);
}

std::string LlamaName(const std::string& name, const std::string& prefix) {
  return absl::StrReplaceAll(
      name, {{"decoder.embedding.word", prefix + "embed_tokens"},
             {"decoder.", prefix},
             {"attention.norm", "input_layernorm"},
             {"attention.query", "self_attn.q_proj"},
             {"attention.key", "self_attn.k_proj"},
             {"attention.value", "self_attn.v_proj"},
             {"attention.output", "self_attn.o_proj"},
             {"ffn.norm", "post_attention_layernorm"},
             {"ffn.gate", "mlp.gate_proj"},
             {"ffn.up", "mlp.up_proj"},
             {"ffn.down", "mlp.down_proj"},
             {"head.norm", prefix + "norm"},
             {"head.output", "lm_head"}});
}

std::string Gpt2Name(const std::string& name, const std::string& prefix) {
  return absl::StrReplaceAll(
      name, {{"decoder.embedding.word", prefix + "wte"},
             {"decoder.embedding.position", prefix + "wpe.weight"},
             {"decoder.layers.", prefix + "h."},
             {"attention.norm", "ln_1"},
             {"attention.query", "attn.c_attn"},
             {"attention.key", "attn.c_attn"},
             {"attention.value", "attn.c_attn"},
             {"attention.output", "attn.c_proj"},
             {"ffn.norm", "ln_2"},
             {"ffn.up", "mlp.c_fc"},
             {"ffn.down", "mlp.c_proj"},
             {"head.norm", prefix + "ln_f"}});
}

}  // namespace

std::vector<float> SomeValues(const ModelConfig& config) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(MakeModelLayout(config).parameters.size());
  for (float& x : values) x = normal(random);
  return values;
}

Tensors Published(const ModelConfig& config, const std::vector<float>& values,
                  const std::string& prefix) {
  const ModelLayout layout = MakeModelLayout(config);
  Tensors tensors;
  for (const Parameter& p : layout.parameters.parameters()) {
    const NamedTensor tensor{
        p.shape,
        {values.begin() + p.offset, values.begin() + p.offset + p.size}};
    const std::string name = absl::StrReplaceAll(
        p.name, {{".gamma", ".weight"}, {".beta", ".bias"}});
    if (!config.llama()) {
      AppendColumns(tensor, &tensors[Gpt2Name(name, prefix)]);
      continue;
    }
    const bool linear =
        p.shape.size() == 2 && !absl::StrContains(name, "embedding");
    tensors[LlamaName(name, prefix)] = linear ? Transposed(tensor) : tensor;
  }
  return tensors;
}

}  // namespace comera::trainer
