// Names, keys and layouts of decoders in llama.cpp's files.
#include "worker/trainer/export/gguf_decoder.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {
namespace {

struct Rename {
  const char *ours, *theirs;
};

// Linear layers of a block, below decoder.layers.I and blk.I; a GPT-2's query,
// key and value are one tensor.
constexpr Rename kLinear[] = {
    {"attention.query", "attn_q"}, {"attention.key", "attn_k"},
    {"attention.value", "attn_v"}, {"attention.output", "attn_output"},
    {"ffn.gate", "ffn_gate"},      {"ffn.up", "ffn_up"},
    {"ffn.down", "ffn_down"},
};
constexpr Rename kNorms[] = {
    {"attention.norm", "attn_norm"},
    {"ffn.norm", "ffn_norm"},
};

class Writer {
 public:
  Writer(const ImportedModel& dense, GgufNumber weights, GgufFile* file)
      : model_(dense),
        layout_(MakeModelLayout(dense.config).parameters),
        weights_(weights),
        file_(*file) {}

  absl::Status Write() {
    const ModelConfig& config = model_.config;
    RETURN_IF_ERROR(
        AddMatrix("token_embd.weight", Value("decoder.embedding.word.weight")));
    if (!config.llama()) {
      RETURN_IF_ERROR(Add("position_embd.weight", GgufNumber::kFloat32,
                          Value("decoder.embedding.position")));
    }
    for (int64_t i = 0; i < config.layers; ++i) RETURN_IF_ERROR(AddBlock(i));
    RETURN_IF_ERROR(AddNorm("head.norm", "output_norm"));
    if (config.tie_output) return absl::OkStatus();
    return AddMatrix("output.weight", Turned("head.output.weight"));
  }

 private:
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };

  bool Has(const std::string& name) const { return layout_.Find(name) >= 0; }

  Tensor Value(const std::string& name) const {
    const Parameter& p = layout_[layout_.Find(name)];
    const float* const values = model_.parameters.data() + p.offset;
    return {p.shape, std::vector<float>(values, values + p.size)};
  }

  // A matrix (inputs, outputs) of ours as (outputs, inputs).
  Tensor Turned(const std::string& name) const {
    const Parameter& p = layout_[layout_.Find(name)];
    const float* const values = model_.parameters.data() + p.offset;
    const int64_t inputs = p.shape[0], outputs = p.shape[1];
    Tensor turned = {{outputs, inputs}, std::vector<float>(p.size)};
    for (int64_t i = 0; i < inputs; ++i) {
      for (int64_t o = 0; o < outputs; ++o) {
        turned.values[o * inputs + i] = values[i * outputs + o];
      }
    }
    return turned;
  }

  // Rows i and i + width / 2 of each head become neighbours.
  Tensor Paired(const Tensor& halves) const {
    const int64_t width = model_.config.head_width();
    const int64_t columns = halves.shape[1];
    Tensor paired = {halves.shape, std::vector<float>(halves.values.size())};
    for (int64_t row = 0; row < halves.shape[0]; ++row) {
      const int64_t within = row % width;
      const int64_t from = row - within + within % 2 * (width / 2) + within / 2;
      std::copy_n(halves.values.begin() + from * columns, columns,
                  paired.values.begin() + row * columns);
    }
    return paired;
  }

  absl::Status Add(const std::string& name, GgufNumber type,
                   const Tensor& tensor) {
    return file_.AddTensor(name, tensor.shape, type, tensor.values);
  }

  absl::Status AddMatrix(const std::string& name, const Tensor& tensor) {
    GgufNumber type = weights_;
    if (type == GgufNumber::kQ8_0 && tensor.shape[1] % kQ8Block != 0) {
      type = GgufNumber::kFloat16;
    }
    return Add(name, type, tensor);
  }

  absl::Status AddNorm(const std::string& ours, const std::string& theirs) {
    RETURN_IF_ERROR(
        Add(theirs + ".weight", GgufNumber::kFloat32, Value(ours + ".gamma")));
    if (!Has(ours + ".beta")) return absl::OkStatus();
    return Add(theirs + ".bias", GgufNumber::kFloat32, Value(ours + ".beta"));
  }

  // GPT-2's queries, keys and values below one another.
  absl::Status AddJoined(const std::string& ours, const std::string& theirs) {
    Tensor weight = {{0, model_.config.hidden}, {}}, bias = {{0}, {}};
    for (const char* part : {"query", "key", "value"}) {
      const std::string name = absl::StrCat(ours, "attention.", part);
      const Tensor rows = Turned(name + ".weight");
      const Tensor numbers = Value(name + ".bias");
      weight.shape[0] += rows.shape[0];
      bias.shape[0] += numbers.shape[0];
      weight.values.insert(weight.values.end(), rows.values.begin(),
                           rows.values.end());
      bias.values.insert(bias.values.end(), numbers.values.begin(),
                         numbers.values.end());
    }
    RETURN_IF_ERROR(AddMatrix(theirs + "attn_qkv.weight", weight));
    return Add(theirs + "attn_qkv.bias", GgufNumber::kFloat32, bias);
  }

  absl::Status AddBlock(int64_t block) {
    const std::string ours = absl::StrCat("decoder.layers.", block, ".");
    const std::string theirs = absl::StrCat("blk.", block, ".");
    const bool llama = model_.config.llama();
    for (const Rename& norm : kNorms) {
      RETURN_IF_ERROR(AddNorm(ours + norm.ours, theirs + norm.theirs));
    }
    if (!llama) RETURN_IF_ERROR(AddJoined(ours, theirs));
    for (const Rename& linear : kLinear) {
      const absl::string_view key = linear.theirs;
      const bool turns = key == "attn_q" || key == "attn_k";
      if (!llama && (turns || key == "attn_v")) continue;
      const std::string name = ours + linear.ours;
      if (!Has(name + ".weight")) continue;  // a GPT-2 has no gate
      const Tensor weight = Turned(name + ".weight");
      RETURN_IF_ERROR(AddMatrix(theirs + linear.theirs + ".weight",
                                llama && turns ? Paired(weight) : weight));
      if (!Has(name + ".bias")) continue;
      RETURN_IF_ERROR(Add(theirs + linear.theirs + ".bias",
                          GgufNumber::kFloat32, Value(name + ".bias")));
    }
    return absl::OkStatus();
  }

  const ImportedModel& model_;
  const ParameterLayout layout_;
  const GgufNumber weights_;
  GgufFile& file_;
};

}  // namespace

void AddDecoderSizes(const ModelConfig& config, GgufFile* file) {
  const char* const name = config.llama() ? "llama" : "gpt2";
  const auto set = [&](const char* key, int64_t value) {
    file->Set(absl::StrCat(name, ".", key), static_cast<uint32_t>(value));
  };
  file->Set("general.architecture", name);
  set("vocab_size", config.vocabulary);
  set("context_length", config.max_positions);
  set("embedding_length", config.hidden);
  set("block_count", config.layers);
  set("feed_forward_length", config.ffn);
  set("attention.head_count", config.heads);
  set("attention.head_count_kv", config.key_width() / config.head_width());
  if (!config.llama()) {
    file->Set("gpt2.attention.layer_norm_epsilon", config.layer_norm_epsilon);
    return;
  }
  file->Set("llama.attention.layer_norm_rms_epsilon",
            config.layer_norm_epsilon);
  set("rope.dimension_count", config.head_width());
  file->Set("llama.rope.freq_base", config.rope_theta);
}

absl::Status AddDecoderWeights(const ImportedModel& dense, GgufNumber weights,
                               GgufFile* file) {
  return Writer(dense, weights, file).Write();
}

}  // namespace comera::trainer
