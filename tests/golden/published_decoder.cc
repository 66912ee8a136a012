// Maps the names and layouts of published language models to ours.

#include "tests/golden/published_decoder.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/golden/golden_file.h"
#include "worker/trainer/model/config/layer_table.h"

namespace comera::golden {
namespace {

using trainer::LowRank;
using trainer::ModelConfig;
using trainer::Parameter;
using Json = nlohmann::json;

// Parts of names, ours and Hugging Face's.
constexpr std::pair<const char*, const char*> kLlamaNames[] = {
    {"decoder.embedding.word", "model.embed_tokens"},
    {"decoder.layers.", "model.layers."},
    {"attention.norm.gamma", "input_layernorm.weight"},
    {"attention.query", "self_attn.q_proj"},
    {"attention.key", "self_attn.k_proj"},
    {"attention.value", "self_attn.v_proj"},
    {"attention.output", "self_attn.o_proj"},
    {"ffn.norm.gamma", "post_attention_layernorm.weight"},
    {"ffn.gate", "mlp.gate_proj"},
    {"ffn.up", "mlp.up_proj"},
    {"ffn.down", "mlp.down_proj"},
    {"head.norm.gamma", "model.norm.weight"},
    {"head.output", "lm_head"},
};
constexpr std::pair<const char*, const char*> kGpt2Names[] = {
    {"decoder.embedding.word", "transformer.wte"},
    {"decoder.embedding.position", "transformer.wpe.weight"},
    {"decoder.layers.", "transformer.h."},
    {"attention.norm", "ln_1"},
    {"attention.query", "attn.c_attn"},
    {"attention.key", "attn.c_attn"},
    {"attention.value", "attn.c_attn"},
    {"attention.output", "attn.c_proj"},
    {"ffn.norm", "ln_2"},
    {"ffn.up", "mlp.c_fc"},
    {"ffn.down", "mlp.c_proj"},
    {"head.norm", "transformer.ln_f"},
    {".gamma", ".weight"},
    {".beta", ".bias"},
};
// The published parameters' names begin so.
constexpr const char* kBeginnings[] = {"model.", "lm_head.", "transformer."};
constexpr int32_t kNoTarget = -100;
constexpr int32_t kPaddingSegment = -1;

template <typename Pairs>
std::string Renamed(std::string name, const Pairs& pairs) {
  for (const auto& [ours, theirs] : pairs) {
    name = absl::StrReplaceAll(name, {{ours, theirs}});
  }
  return name;
}

// Where a parameter of ours is found.
struct Source {
  std::string name;
  bool transposed = false;  // nn.Linear's weight, (outputs, inputs)
  // The group of columns, of so many equal ones: GPT-2 keeps queries, keys and
  // values side by side.
  int64_t part = 0, parts = 1;
};

Source SourceOf(const std::string& name, bool gpt2) {
  Source source;
  if (gpt2) {
    source.name = Renamed(name, kGpt2Names);
    if (absl::StrContains(source.name, "c_attn")) {
      source.parts = 3;
      source.part = absl::StrContains(name, ".query.") ? 0
                    : absl::StrContains(name, ".key.") ? 1
                                                       : 2;
    }
    return source;
  }
  source.name = Renamed(name, kLlamaNames);
  source.transposed = absl::EndsWith(source.name, "_proj.weight") ||
                      source.name == "lm_head.weight";
  for (const char* factor : {"a", "b"}) {
    if (absl::EndsWith(name, absl::StrCat(".", factor))) {
      source.name.replace(source.name.size() - 1, 1,
                          absl::StrCat("cola_", factor));
    }
  }
  return source;
}

// Columns [part * columns, (part + 1) * columns) of a (rows, parts * columns)
// matrix.
std::vector<float> Columns(const std::vector<float>& values, int64_t rows,
                           int64_t columns, const Source& source) {
  std::vector<float> result;
  for (int64_t i = 0; i < rows; ++i) {
    const auto begin =
        values.begin() + (i * source.parts + source.part) * columns;
    result.insert(result.end(), begin, begin + columns);
  }
  return result;
}

absl::StatusOr<std::vector<float>> ValuesOf(const Safetensors& file,
                                            const std::string& name,
                                            const Source& source,
                                            const Parameter& p) {
  std::vector<int64_t> expected = p.shape;
  expected.back() *= source.parts;
  if (source.transposed) std::reverse(expected.begin(), expected.end());
  ASSIGN_OR_RETURN(const std::vector<int64_t> shape, file.GetShape(name));
  if (shape != expected) {
    return absl::DataLossError(name + ": not of the shape of " + p.name);
  }
  ASSIGN_OR_RETURN(const std::vector<float> values, file.GetFloat(name));
  if (source.transposed) return Transposed(values, shape[0], shape[1]);
  const int64_t columns = p.shape.back();
  return Columns(values, p.size / columns, columns, source);
}

absl::StatusOr<Json> Field(const Json& json, const char* key) {
  if (!json.contains(key)) {
    return absl::DataLossError(
        absl::StrCat("metadata config: ", key, ": missing"));
  }
  return json[key];
}

absl::Status ReadInteger(const Json& json, const char* key, int64_t* to) {
  ASSIGN_OR_RETURN(const Json field, Field(json, key));
  if (!field.is_number_integer() || field < 1 || field > 1 << 20) {
    return absl::DataLossError(absl::StrCat("metadata config: ", key));
  }
  *to = field.get<int64_t>();
  return absl::OkStatus();
}

absl::Status ReadFloat(const Json& json, const char* key, float* to) {
  ASSIGN_OR_RETURN(const Json field, Field(json, key));
  if (!field.is_number()) {
    return absl::DataLossError(absl::StrCat("metadata config: ", key));
  }
  *to = field.get<float>();
  return absl::OkStatus();
}

absl::Status ReadBool(const Json& json, const char* key, bool* to) {
  ASSIGN_OR_RETURN(const Json field, Field(json, key));
  if (!field.is_boolean()) {
    return absl::DataLossError(absl::StrCat("metadata config: ", key));
  }
  *to = field.get<bool>();
  return absl::OkStatus();
}

absl::Status ReadGpt2(const Json& json, ModelConfig* config) {
  config->architecture = v1::ModelSpec::GPT2;
  RETURN_IF_ERROR(ReadInteger(json, "n_embd", &config->hidden));
  RETURN_IF_ERROR(ReadInteger(json, "n_layer", &config->layers));
  RETURN_IF_ERROR(ReadInteger(json, "n_head", &config->heads));
  RETURN_IF_ERROR(ReadInteger(json, "n_inner", &config->ffn));
  RETURN_IF_ERROR(ReadInteger(json, "n_positions", &config->max_positions));
  config->kv_heads = config->heads;
  return ReadFloat(json, "layer_norm_epsilon", &config->layer_norm_epsilon);
}

absl::Status ReadLlama(const Json& json, ModelConfig* config) {
  config->architecture = v1::ModelSpec::LLAMA;
  RETURN_IF_ERROR(ReadInteger(json, "hidden_size", &config->hidden));
  RETURN_IF_ERROR(ReadInteger(json, "num_hidden_layers", &config->layers));
  RETURN_IF_ERROR(ReadInteger(json, "num_attention_heads", &config->heads));
  RETURN_IF_ERROR(ReadInteger(json, "num_key_value_heads", &config->kv_heads));
  RETURN_IF_ERROR(ReadInteger(json, "intermediate_size", &config->ffn));
  RETURN_IF_ERROR(ReadFloat(json, "rope_theta", &config->rope_theta));
  // LLaMA has no table of positions.
  config->max_positions = config->length;
  return ReadFloat(json, "rms_norm_eps", &config->layer_norm_epsilon);
}

// CoLA's form of every layer between embedding and output.
absl::StatusOr<LowRank> ReadCola(const Json& json, ModelConfig* config) {
  LowRank low;
  low.kind = LowRank::Kind::kCola;
  RETURN_IF_ERROR(ReadInteger(json, "rank", &low.rank));
  bool between = false, only_between = false;
  RETURN_IF_ERROR(ReadBool(json, "lr_act", &between));
  RETURN_IF_ERROR(ReadBool(json, "only_lr_act", &only_between));
  low.linear = !between;
  config->gate_silu = !only_between;
  return low;
}

struct Integers {
  std::vector<int32_t> ids, targets, positions, segments;
};

// The part of one batch of `tokens`.
absl::StatusOr<Integers> ReadIntegers(const Safetensors& file,
                                      const std::string& prefix, int64_t index,
                                      int64_t tokens) {
  Integers all;
  for (const auto& [name, to] :
       {std::pair{"input_ids", &all.ids}, std::pair{"targets", &all.targets},
        std::pair{"position_ids", &all.positions},
        std::pair{"segment_ids", &all.segments}}) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> values,
                     GetInt32(file, prefix + name));
    if (static_cast<int64_t>(values.size()) < (index + 1) * tokens) {
      return absl::DataLossError(prefix + name + ": too short");
    }
    to->assign(values.begin() + index * tokens,
               values.begin() + (index + 1) * tokens);
  }
  return all;
}

// Whether a token follows the one before it as the engine understands batches.
bool Follows(const Integers& all, int64_t token, bool first_of_row) {
  const int32_t segment = all.segments[token];
  if (segment == kPaddingSegment) {
    return !first_of_row && all.targets[token] == kNoTarget;
  }
  const int32_t position = all.positions[token];
  if (first_of_row) return segment == 0 && position == 0;
  const int32_t before = all.segments[token - 1];
  if (segment == before) return position == all.positions[token - 1] + 1;
  return before != kPaddingSegment && segment == before + 1 && position == 0;
}

}  // namespace

absl::StatusOr<ModelConfig> PublishedDecoderConfig(const Safetensors& file) {
  ASSIGN_OR_RETURN(const Json json, MetadataObject(file, "config"));
  ASSIGN_OR_RETURN(const auto ids, file.GetShape("input_ids"));
  if (ids.size() != 2) return absl::DataLossError("input_ids: not (B, T)");
  ModelConfig config;
  config.family = v1::ModelSpec::CAUSAL_LM;
  config.length = ids[1];
  config.segments = 0;
  config.dropout = 0;
  RETURN_IF_ERROR(ReadInteger(json, "vocab_size", &config.vocabulary));
  RETURN_IF_ERROR(ReadBool(json, "tie_word_embeddings", &config.tie_output));
  RETURN_IF_ERROR(json.contains("n_embd") ? ReadGpt2(json, &config)
                                          : ReadLlama(json, &config));
  LowRank low;
  if (json.contains("rank")) {
    ASSIGN_OR_RETURN(low, ReadCola(json, &config));
  }
  for (const trainer::FactorisableLayer& layer : FactorisableLayers(config)) {
    trainer::Factorisation& f = config.layers_by_name[layer.key];
    if (!layer.embedding && layer.layer_class != "output") f.low_rank = low;
  }
  RETURN_IF_ERROR(CheckModelConfig(config));
  return config;
}

absl::StatusOr<trainer::Batch> PublishedDecoderBatch(const Safetensors& file,
                                                     const std::string& prefix,
                                                     int64_t index) {
  ASSIGN_OR_RETURN(const auto shape, file.GetShape("input_ids"));
  if (shape.size() != 2) return absl::DataLossError("input_ids: not (B, T)");
  trainer::Batch batch;
  batch.size = shape[0];
  batch.length = shape[1];
  const int64_t tokens = batch.size * batch.length;
  ASSIGN_OR_RETURN(const Integers all,
                   ReadIntegers(file, prefix, index, tokens));
  batch.ids = all.ids;
  for (int64_t i = 0; i < tokens; ++i) {
    if (!Follows(all, i, i % batch.length == 0)) {
      return absl::DataLossError(absl::StrCat(
          prefix, "segment_ids, position_ids: unexpected at token ", i));
    }
    const bool padding = all.segments[i] == kPaddingSegment;
    batch.segments.push_back(padding ? 0 : all.segments[i]);
    batch.mask.push_back(padding ? 0.0f : 1.0f);
    if (all.targets[i] == kNoTarget) continue;
    batch.label_rows.push_back(static_cast<int32_t>(i));
    batch.labels.push_back(all.targets[i]);
  }
  return batch;
}

absl::StatusOr<std::vector<float>> PublishedDecoderValues(
    const Safetensors& file, const std::string& prefix,
    const ModelConfig& config, const trainer::ParameterLayout& layout) {
  const bool gpt2 = config.architecture == v1::ModelSpec::GPT2;
  std::vector<float> values(layout.size());
  std::set<std::string> used;
  for (const Parameter& p : layout.parameters()) {
    const Source source = SourceOf(p.name, gpt2);
    const std::string name = prefix + source.name;
    ASSIGN_OR_RETURN(const std::vector<float> part,
                     ValuesOf(file, name, source, p));
    std::copy(part.begin(), part.end(), values.begin() + p.offset);
    used.insert(name);
  }
  for (const auto& [name, tensor] : file.tensors()) {
    for (const char* beginning : kBeginnings) {
      if (absl::StartsWith(name, prefix + beginning) && used.count(name) == 0) {
        return absl::DataLossError(name + ": no such parameter");
      }
    }
  }
  return values;
}

}  // namespace comera::golden
