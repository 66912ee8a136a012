// Names, settings and layouts of published causal language models.
#include "worker/trainer/export/hf_decoder.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/weights/decoder_naming.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::ordered_json;

// The rows of a tensor that several parameters share side by side.
struct JoinedTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

void AddPart(const Parameter& p, const float* values, const TensorPlace& place,
             JoinedTensor* joined) {
  const int64_t columns = p.shape.back(), rows = p.size / columns;
  const int64_t all_columns = columns * place.parts;
  if (joined->values.empty()) {
    joined->shape = p.shape;
    joined->shape.back() = all_columns;
    joined->values.resize(rows * all_columns);
  }
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(
        values + i * columns, columns,
        joined->values.begin() + i * all_columns + place.part * columns);
  }
}

std::vector<float> Transposed(const float* values, int64_t rows,
                              int64_t columns) {
  std::vector<float> turned(rows * columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      turned[j * rows + i] = values[i * columns + j];
    }
  }
  return turned;
}

void AddTokens(const Tokenizer& tokenizer, Json* json) {
  const std::optional<int32_t> end = tokenizer.end_of_text();
  (*json)["bos_token_id"] = FirstToken(tokenizer);
  (*json)["eos_token_id"] = end ? Json(*end) : Json(nullptr);
  (*json)["pad_token_id"] = tokenizer.special_tokens().pad;
}

Json Llama(const ModelConfig& config) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", config.vocabulary},
          {"hidden_size", config.hidden},
          {"intermediate_size", config.ffn},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"num_key_value_heads", config.key_width() / config.head_width()},
          {"head_dim", config.head_width()},
          {"hidden_act", "silu"},
          {"max_position_embeddings", config.max_positions},
          {"rms_norm_eps", config.layer_norm_epsilon},
          {"rope_theta", config.rope_theta},
          {"rope_scaling", nullptr},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"attention_dropout", config.dropout},
          {"tie_word_embeddings", config.tie_output}};
}

Json Gpt2(const ModelConfig& config) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", config.vocabulary},
          {"n_embd", config.hidden},
          {"n_inner", config.ffn},
          {"n_layer", config.layers},
          {"n_head", config.heads},
          {"n_positions", config.max_positions},
          {"n_ctx", config.max_positions},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", config.layer_norm_epsilon},
          {"resid_pdrop", config.dropout},
          {"embd_pdrop", config.dropout},
          {"attn_pdrop", config.dropout},
          {"tie_word_embeddings", true}};
}

}  // namespace

nlohmann::ordered_json FirstToken(const Tokenizer& tokenizer) {
  const int32_t first = tokenizer.special_tokens().cls;
  if (first >= 0) return first;
  const std::optional<int32_t> end = tokenizer.end_of_text();
  return end ? Json(*end) : Json(nullptr);
}

absl::Status AddDecoderTensors(const ImportedModel& dense, Safetensors* file) {
  const ModelConfig& config = dense.config;
  const std::unique_ptr<TensorNaming> naming = MakeDecoderNaming(
      config.architecture, config.llama() ? "model." : "transformer.");
  const ModelLayout layout = MakeModelLayout(config);
  std::map<std::string, JoinedTensor> joined;
  for (const Parameter& p : layout.parameters.parameters()) {
    const std::vector<TensorPlace> places = naming->Places(p.name);
    if (places.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(p.name, ": has no name there"));
    }
    const TensorPlace& place = places[0];
    const float* values = dense.parameters.data() + p.offset;
    if (place.parts > 1) {
      AddPart(p, values, place, &joined[place.name]);
    } else if (place.transposed) {
      const std::vector<float> turned =
          Transposed(values, p.shape[0], p.shape[1]);
      RETURN_IF_ERROR(file->AddFloat(place.name, {p.shape[1], p.shape[0]},
                                     turned.data(), p.size));
    } else {
      RETURN_IF_ERROR(file->AddFloat(place.name, p.shape, values, p.size));
    }
  }
  for (const auto& [name, tensor] : joined) {
    RETURN_IF_ERROR(file->AddFloat(name, tensor.shape, tensor.values.data(),
                                   static_cast<int64_t>(tensor.values.size())));
  }
  return absl::OkStatus();
}

std::string DecoderConfigText(const ModelConfig& config,
                              const Tokenizer& tokenizer) {
  Json json = config.llama() ? Llama(config) : Gpt2(config);
  AddTokens(tokenizer, &json);
  json["use_cache"] = true;
  json["torch_dtype"] = "float32";
  return JsonText(json, 2) + "\n";
}

std::string GenerationConfigText(const Tokenizer& tokenizer) {
  Json json = Json::object();
  AddTokens(tokenizer, &json);
  return JsonText(json, 2) + "\n";
}

}  // namespace comera::trainer
