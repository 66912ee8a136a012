// Compares a published model's config.json with the model to train.
#include "worker/trainer/model/weights/published_config.h"

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/model/config/config_json.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;

constexpr char kFile[] = "config.json";
constexpr int64_t kMaxBytes = 1 << 20;
// What a number may lose on its way through float and decimal digits.
constexpr double kRounding = 1e-6;

// Compares fields, and keeps the first that differs.
class Comparison {
 public:
  Comparison(std::string path, const Json& json)
      : path_(std::move(path)), json_(json) {}

  const absl::Status& status() const { return status_; }

  // A field with a default for where it is missing or null.
  Json Get(const char* field, const Json& otherwise) const {
    const auto found = json_.find(field);
    return found == json_.end() || found->is_null() ? otherwise : *found;
  }

  void Integer(const char* field, int64_t ours, int64_t otherwise) {
    const Json theirs = Get(field, otherwise);
    if (!theirs.is_number_integer() || theirs != ours) Differ(field, ours);
  }
  // Without a default.
  void Integer(const char* field, int64_t ours) {
    const Json theirs = Get(field, nullptr);
    if (!theirs.is_number_integer() || theirs != ours) Differ(field, ours);
  }
  void AtLeast(const char* field, int64_t ours) {
    const Json theirs = Get(field, nullptr);
    if (!theirs.is_number_integer() || theirs < ours) {
      Differ(field, absl::StrCat(ours, " at least"));
    }
  }
  void Number(const char* field, double ours, double otherwise) {
    const Json theirs = Get(field, otherwise);
    if (!theirs.is_number() ||
        std::fabs(theirs.get<double>() - ours) > kRounding * std::fabs(ours)) {
      Differ(field, ours);
    }
  }
  void Boolean(const char* field, bool ours, bool otherwise) {
    if (Get(field, otherwise) != ours) Differ(field, ours);
  }
  void OneOf(const char* field, std::initializer_list<const char*> ours,
             const char* otherwise) {
    const Json theirs = Get(field, otherwise);
    for (const char* one : ours) {
      if (theirs == one) return;
    }
    Differ(field, *ours.begin());
  }
  void Missing(const char* field) {
    if (!Get(field, nullptr).is_null()) Differ(field, nullptr);
  }

  void Differ(const std::string& field, const Json& ours) {
    if (!status_.ok()) return;
    // What the file has instead is for those who may read it.
    status_ = absl::InvalidArgumentError(
        absl::StrCat(path_, ": ", field, ": expected ", JsonText(ours),
                     ", which the job's model has"));
  }

 private:
  const std::string path_;
  const Json& json_;
  absl::Status status_;
};

// The base of the angles: a field of its own, or one of rope_parameters.
void CompareRotation(const ModelConfig& config, const Json& json,
                     Comparison* compare) {
  compare->Missing("rope_scaling");
  const Json parameters = compare->Get("rope_parameters", Json::object());
  if (!parameters.is_object()) {
    compare->Differ("rope_parameters", Json::object());
    return;
  }
  Json rotation = json;
  for (const auto& [key, value] : parameters.items()) {
    if (key == "rope_type" && value != "default") {
      compare->Differ("rope_parameters", {{"rope_type", "default"}});
    }
    if (key == "rope_theta") rotation["rope_theta"] = value;
  }
  Comparison angles("", rotation);
  angles.Number("rope_theta", config.rope_theta, 1e4);
  if (!angles.status().ok()) compare->Differ("rope_theta", config.rope_theta);
}

void CompareLlama(const ModelConfig& config, const Json& json,
                  Comparison* compare) {
  compare->OneOf("model_type", {"llama", "mistral"}, "");
  compare->Integer("hidden_size", config.hidden);
  compare->Integer("num_hidden_layers", config.layers);
  compare->Integer("num_attention_heads", config.heads);
  compare->Integer("num_key_value_heads",
                   config.key_width() / config.head_width(), config.heads);
  compare->Integer("intermediate_size", config.ffn);
  compare->Integer("head_dim", config.head_width(), config.head_width());
  compare->AtLeast("vocab_size", config.vocabulary);
  compare->Number("rms_norm_eps", config.layer_norm_epsilon, 1e-6);
  compare->OneOf("hidden_act", {"silu", "swish"}, "silu");
  compare->Boolean("attention_bias", false, false);
  compare->Boolean("mlp_bias", false, false);
  compare->Boolean("tie_word_embeddings", config.tie_output, false);
  // Attention within a window is the same as long as no text is longer.
  if (!compare->Get("sliding_window", nullptr).is_null()) {
    compare->AtLeast("sliding_window", config.length);
  }
  CompareRotation(config, json, compare);
}

void CompareGpt2(const ModelConfig& config, Comparison* compare) {
  compare->OneOf("model_type", {"gpt2"}, "");
  compare->Integer("n_embd", config.hidden);
  compare->Integer("n_layer", config.layers);
  compare->Integer("n_head", config.heads);
  compare->Integer("n_inner", config.ffn, 4 * config.hidden);
  compare->AtLeast("n_positions", config.max_positions);
  compare->AtLeast("vocab_size", config.vocabulary);
  compare->Number("layer_norm_epsilon", config.layer_norm_epsilon, 1e-5);
  compare->OneOf("activation_function", {"gelu_new", "gelu_pytorch_tanh"},
                 "gelu_new");
  compare->Boolean("tie_word_embeddings", true, true);
  compare->Boolean("scale_attn_weights", true, true);
  compare->Boolean("scale_attn_by_inverse_layer_idx", false, false);
  compare->Boolean("add_cross_attention", false, false);
}

// The config.json of a model that this service exported.
absl::Status CompareOurs(const std::string& path, const ModelConfig& config,
                         const Json& json) {
  const absl::StatusOr<ModelConfig> theirs =
      ModelConfigFromJson(json.value("model", Json()));
  if (!theirs.ok()) {
    return absl::Status(theirs.status().code(),
                        absl::StrCat(path, ": ", theirs.status().message()));
  }
  const Json model = ModelConfigToJson(*theirs);
  const Json own = ModelConfigToJson(config);
  for (const char* field : {"family", "architecture", "layers", "hidden", "ffn",
                            "heads", "kv_heads", "rope_theta", "gate_silu",
                            "tie_output", "layer_norm_epsilon"}) {
    Comparison compare(path, model);
    if (model.value(field, Json()) != own.value(field, Json())) {
      compare.Differ(field, own.value(field, Json()));
      return compare.status();
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPublishedConfig(const std::string& folder,
                                  const ModelConfig& config) {
  const std::string path =
      folder.empty() ? kFile : absl::StrCat(folder, "/", kFile);
  const absl::StatusOr<std::string> text = ReadLimited(path, kMaxBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  const Json json = ParseJson(*text);
  if (!json.is_object()) {
    return absl::DataLossError(absl::StrCat(path, ": expected an object"));
  }
  if (json.count("format") > 0) return CompareOurs(path, config, json);
  Comparison compare(path, json);
  if (config.llama()) {
    CompareLlama(config, json, &compare);
  } else {
    CompareGpt2(config, &compare);
  }
  return compare.status();
}

}  // namespace comera::trainer
