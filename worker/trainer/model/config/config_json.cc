// Writes a model configuration as JSON and reads it back.
#include "worker/trainer/model/config/config_json.h"

#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;

constexpr char kClassifier[] = "encoder_classifier";
constexpr char kMaskedLm[] = "masked_lm";
constexpr char kCausalLm[] = "causal_lm";
constexpr char kLlama[] = "llama";
constexpr char kGpt2[] = "gpt2";
constexpr char kDlrm[] = "dlrm";
constexpr size_t kMaxColumns = 1024;
constexpr size_t kMaxDenseTokens = size_t{1} << 20;

absl::Status Bad(const std::string& key, const char* what) {
  return absl::DataLossError(
      absl::StrCat("model configuration: ", key, ": ", what));
}

absl::Status Impossible(const absl::Status& status) {
  return absl::DataLossError(
      absl::StrCat("model configuration: ", status.message()));
}

absl::StatusOr<int64_t> Integer(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) {
    return Bad(key, "expected an integer");
  }
  if (found->is_number_unsigned() &&
      found->get<uint64_t>() > uint64_t{INT64_MAX}) {
    return Bad(key, "out of range");
  }
  return found->get<int64_t>();
}

absl::StatusOr<float> Number(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) {
    return Bad(key, "expected a number");
  }
  return found->get<float>();
}

// `otherwise` where the key is missing, as in files of earlier versions.
absl::StatusOr<bool> Boolean(const Json& json, const char* key,
                             bool otherwise) {
  const auto found = json.find(key);
  if (found == json.end()) return otherwise;
  if (!found->is_boolean()) return Bad(key, "expected a boolean");
  return found->get<bool>();
}

// `name` for errors.
absl::StatusOr<std::vector<int64_t>> Integers(const Json& json,
                                              const std::string& name,
                                              const char* key,
                                              size_t most = 64) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array() || found->size() > most) {
    return Bad(name, "expected a short array");
  }
  std::vector<int64_t> values;
  for (const Json& value : *found) {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() &&
         value.get<uint64_t>() > uint64_t{INT64_MAX})) {
      return Bad(name, "expected integers");
    }
    values.push_back(value.get<int64_t>());
  }
  return values;
}

// By LowRank::Kind. The weights of GaLore and LTE are like any others once
// trained.
constexpr const char* kLowRankNames[] = {nullptr, nullptr, "lora", nullptr,
                                         "cola"};
// In models of versions that exported LTE's heads, without factors at a last
// merge: one product as wide as all heads together, which is LoRA's.
constexpr char kOldLte[] = "lte";

Json FactorisationToJson(const Factorisation& f) {
  Json json = {{"input_modes", f.input_modes},
               {"output_modes", f.output_modes},
               {"ranks", f.ranks}};
  if (f.silu) json["silu"] = true;
  if (!f.dense_tokens.empty()) json["dense_tokens"] = f.dense_tokens;
  const char* name = kLowRankNames[static_cast<int>(f.low_rank.kind)];
  if (name != nullptr) {
    json["low_rank"] = {{"kind", name},
                        {"rank", f.low_rank.rank},
                        {"heads", f.low_rank.heads},
                        {"scale", f.low_rank.scale}};
    if (f.low_rank.linear) json["low_rank"]["linear"] = true;
  }
  return json;
}

absl::StatusOr<LowRank> LowRankFromJson(const Json& json,
                                        const std::string& layer) {
  const std::string key = absl::StrCat("factorisation of ", layer, ".low_rank");
  LowRank low;
  const auto found = json.find("low_rank");
  if (found == json.end()) return low;
  if (!found->is_object()) return Bad(key, "expected an object");
  const Json kind = found->value("kind", Json());
  for (int i = 0; i < static_cast<int>(std::size(kLowRankNames)); ++i) {
    if (kLowRankNames[i] != nullptr && kind == kLowRankNames[i]) {
      low.kind = static_cast<LowRank::Kind>(i);
    }
  }
  if (kind == kOldLte) low.kind = LowRank::Kind::kLora;
  if (low.kind == LowRank::Kind::kNone) return Bad(key, "unknown kind");
  for (auto [field, value] :
       {std::pair{"rank", &low.rank}, std::pair{"heads", &low.heads}}) {
    const absl::StatusOr<int64_t> number = Integer(*found, field);
    if (!number.ok()) {
      return Bad(absl::StrCat(key, ".", field), "expected an integer");
    }
    *value = *number;
  }
  const auto scale = found->find("scale");
  if (scale == found->end() || !scale->is_number()) {
    return Bad(key, "expected a scale");
  }
  low.scale = scale->get<double>();
  const absl::StatusOr<bool> linear = Boolean(*found, "linear", false);
  if (!linear.ok()) return Bad(key + ".linear", "expected a boolean");
  low.linear = *linear;
  return low;
}

absl::StatusOr<std::vector<int32_t>> DenseTokensFromJson(
    const Json& json, const std::string& layer) {
  if (!json.contains("dense_tokens")) return std::vector<int32_t>();
  const std::string name = absl::StrCat(layer, ".dense_tokens");
  ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                   Integers(json, name, "dense_tokens", kMaxDenseTokens));
  for (const int64_t id : ids) {
    if (id < 0 || id > INT32_MAX) return Bad(name, "expected ids");
  }
  return std::vector<int32_t>(ids.begin(), ids.end());
}

Json FactorisationsToJson(const ModelConfig& config) {
  Json layers = Json::object();
  for (const auto& [key, f] : config.layers_by_name) {
    layers[key] = FactorisationToJson(f);
  }
  return layers;
}

Json DlrmToJson(const ModelConfig& config) {
  return {{"family", kDlrm},
          {"dense_features", config.clicks.dense_features},
          {"table_rows", config.clicks.table_rows},
          {"bottom_mlp", config.bottom_mlp},
          {"top_mlp", config.top_mlp},
          {"rank_threshold", config.rank_threshold},
          {"factorisation", FactorisationsToJson(config)}};
}

Json EncoderToJson(const ModelConfig& config) {
  return {{"family", config.family == v1::ModelSpec::ENCODER_CLASSIFIER
                         ? kClassifier
                         : kMaskedLm},
          {"vocabulary", config.vocabulary},
          {"layers", config.layers},
          {"hidden", config.hidden},
          {"ffn", config.ffn},
          {"heads", config.heads},
          {"max_positions", config.max_positions},
          {"segments", config.segments},
          {"classes", config.classes},
          {"length", config.length},
          {"tie_output", config.tie_output},
          {"dropout", config.dropout},
          {"layer_norm_epsilon", config.layer_norm_epsilon},
          {"rank_threshold", config.rank_threshold},
          {"factorisation", FactorisationsToJson(config)}};
}

Json DecoderToJson(const ModelConfig& config) {
  return {{"family", kCausalLm},
          {"architecture", config.llama() ? kLlama : kGpt2},
          {"vocabulary", config.vocabulary},
          {"layers", config.layers},
          {"hidden", config.hidden},
          {"ffn", config.ffn},
          {"heads", config.heads},
          {"kv_heads", config.kv_heads},
          {"max_positions", config.max_positions},
          {"length", config.length},
          {"rope_theta", config.rope_theta},
          {"gate_silu", config.gate_silu},
          {"tie_output", config.tie_output},
          {"dropout", config.dropout},
          {"layer_norm_epsilon", config.layer_norm_epsilon},
          {"rank_threshold", config.rank_threshold},
          {"factorisation", FactorisationsToJson(config)}};
}

absl::Status ReadDlrm(const Json& json, ModelConfig* config) {
  config->length = 1;
  config->dropout = 0;
  config->segments = 0;
  ASSIGN_OR_RETURN(config->clicks.dense_features,
                   Integer(json, "dense_features"));
  ASSIGN_OR_RETURN(config->clicks.table_rows,
                   Integers(json, "table_rows", "table_rows", kMaxColumns));
  ASSIGN_OR_RETURN(config->bottom_mlp,
                   Integers(json, "bottom_mlp", "bottom_mlp"));
  ASSIGN_OR_RETURN(config->top_mlp, Integers(json, "top_mlp", "top_mlp"));
  return absl::OkStatus();
}

// What encoders and decoders have in common.
absl::Status ReadTransformer(const Json& json, ModelConfig* config) {
  ASSIGN_OR_RETURN(config->vocabulary, Integer(json, "vocabulary"));
  ASSIGN_OR_RETURN(config->layers, Integer(json, "layers"));
  ASSIGN_OR_RETURN(config->hidden, Integer(json, "hidden"));
  ASSIGN_OR_RETURN(config->ffn, Integer(json, "ffn"));
  ASSIGN_OR_RETURN(config->heads, Integer(json, "heads"));
  ASSIGN_OR_RETURN(config->max_positions, Integer(json, "max_positions"));
  ASSIGN_OR_RETURN(config->length, Integer(json, "length"));
  ASSIGN_OR_RETURN(config->tie_output, Boolean(json, "tie_output", false));
  ASSIGN_OR_RETURN(config->dropout, Number(json, "dropout"));
  ASSIGN_OR_RETURN(config->layer_norm_epsilon,
                   Number(json, "layer_norm_epsilon"));
  return absl::OkStatus();
}

absl::Status ReadEncoder(const Json& json, ModelConfig* config) {
  RETURN_IF_ERROR(ReadTransformer(json, config));
  ASSIGN_OR_RETURN(config->segments, Integer(json, "segments"));
  ASSIGN_OR_RETURN(config->classes, Integer(json, "classes"));
  return absl::OkStatus();
}

absl::Status ReadDecoder(const Json& json, ModelConfig* config) {
  RETURN_IF_ERROR(ReadTransformer(json, config));
  config->segments = 0;
  const Json architecture = json.value("architecture", Json());
  if (architecture == kLlama) {
    config->architecture = v1::ModelSpec::LLAMA;
  } else if (architecture == kGpt2) {
    config->architecture = v1::ModelSpec::GPT2;
  } else {
    return Bad("architecture", "unknown");
  }
  ASSIGN_OR_RETURN(config->kv_heads, Integer(json, "kv_heads"));
  ASSIGN_OR_RETURN(config->rope_theta, Number(json, "rope_theta"));
  ASSIGN_OR_RETURN(config->gate_silu, Boolean(json, "gate_silu", true));
  return absl::OkStatus();
}

}  // namespace

Json ModelConfigToJson(const ModelConfig& config) {
  if (config.family == v1::ModelSpec::DLRM) return DlrmToJson(config);
  return config.causal() ? DecoderToJson(config) : EncoderToJson(config);
}

absl::StatusOr<ModelConfig> ModelConfigFromJson(const Json& json) {
  if (!json.is_object()) return Bad("model", "expected an object");
  ModelConfig config;
  const Json family = json.value("family", Json());
  if (family == kClassifier || family == kMaskedLm) {
    config.family = family == kClassifier ? v1::ModelSpec::ENCODER_CLASSIFIER
                                          : v1::ModelSpec::MASKED_LM;
    RETURN_IF_ERROR(ReadEncoder(json, &config));
  } else if (family == kCausalLm) {
    config.family = v1::ModelSpec::CAUSAL_LM;
    RETURN_IF_ERROR(ReadDecoder(json, &config));
  } else if (family == kDlrm) {
    config.family = v1::ModelSpec::DLRM;
    RETURN_IF_ERROR(ReadDlrm(json, &config));
  } else {
    return Bad("family", "unknown");
  }
  ASSIGN_OR_RETURN(config.rank_threshold, Number(json, "rank_threshold"));
  const auto layers = json.find("factorisation");
  if (layers == json.end() || !layers->is_object()) {
    return Bad("factorisation", "expected an object");
  }
  if (absl::Status status = CheckModelShape(config); !status.ok()) {
    return Impossible(status);
  }
  // The model says which layers there are: errors name those, nothing else that
  // the text holds.
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    const std::string name = absl::StrCat("factorisation of ", layer.key);
    const auto value = layers->find(layer.key);
    if (value == layers->end() || !value->is_object()) {
      return Bad(name, "expected an object");
    }
    Factorisation& f = config.layers_by_name[layer.key];
    ASSIGN_OR_RETURN(f.input_modes,
                     Integers(*value, name + ".input_modes", "input_modes"));
    ASSIGN_OR_RETURN(f.output_modes,
                     Integers(*value, name + ".output_modes", "output_modes"));
    ASSIGN_OR_RETURN(f.ranks, Integers(*value, name + ".ranks", "ranks"));
    const absl::StatusOr<bool> silu = Boolean(*value, "silu", false);
    if (!silu.ok()) return Bad(name + ".silu", "expected a boolean");
    f.silu = *silu;
    ASSIGN_OR_RETURN(f.dense_tokens, DenseTokensFromJson(*value, name));
    ASSIGN_OR_RETURN(f.low_rank, LowRankFromJson(*value, layer.key));
  }
  if (layers->size() != config.layers_by_name.size()) {
    return Bad("factorisation", "of layers that the model does not have");
  }
  if (absl::Status status = CheckModelConfig(config); !status.ok()) {
    return Impossible(status);
  }
  return config;
}

}  // namespace comera::trainer
