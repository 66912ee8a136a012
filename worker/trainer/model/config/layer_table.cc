// Lists the layers that can be factorised and checks a model configuration.
#include "worker/trainer/model/config/layer_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/dlrm_layers.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

// No width, rank or product of modes beyond these: far above any model that
// one machine holds, and far below what overflows.
constexpr int64_t kMaxExtent = int64_t{1} << 24;
constexpr int64_t kMaxProduct = int64_t{1} << 26;
constexpr int64_t kMaxRank = 1 << 16;
constexpr int kMaxModes = 16;
constexpr int64_t kMaxHeads = 1024;
constexpr double kMaxScale = 1e9;
constexpr float kMaxTheta = 1e12f;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxParameters = int64_t{1} << 38;

absl::Status CheckRange(const char* field, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value, " is outside [", low, ", ", high, "]"));
}

// The product, or -1 if a mode is not positive or the product is absurd.
int64_t Product(const std::vector<int64_t>& modes) {
  int64_t product = 1;
  for (int64_t mode : modes) {
    if (mode < 1 || mode > kMaxProduct / product) return -1;
    product *= mode;
  }
  return product;
}

absl::Status CheckRanks(const std::string& key, const Factorisation& f,
                        int order) {
  if (static_cast<int>(f.ranks.size()) != order - 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": ", f.ranks.size(), " ranks for ", order,
                     " cores, expected ", order - 1));
  }
  bool any_zero = false, all_zero = true;
  for (int64_t rank : f.ranks) {
    RETURN_IF_ERROR(CheckRange((key + ": rank").c_str(), rank, 0, kMaxRank));
    any_zero |= rank == 0;
    all_zero &= rank == 0;
  }
  if (any_zero && !all_zero) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": one rank is 0, so all must be"));
  }
  return absl::OkStatus();
}

}  // namespace

bool MayActivate(const FactorisableLayer& layer) {
  return !layer.embedding && layer.layer_class != "output";
}

namespace {

absl::Status CheckDenseTokens(const FactorisableLayer& layer,
                              const Factorisation& f) {
  if (f.dense_tokens.empty()) return absl::OkStatus();
  if (f.dense() || layer.layer_class != "embedding") {
    return absl::InvalidArgumentError(absl::StrCat(
        layer.key, ": only a word embedding with cores has dense tokens"));
  }
  int64_t before = -1;
  for (const int32_t id : f.dense_tokens) {
    if (id <= before || id >= layer.inputs) {
      return absl::InvalidArgumentError(
          absl::StrCat(layer.key, ": dense token ", id, " after ", before,
                       ": not ascending, or outside [0, ", layer.inputs, ")"));
    }
    before = id;
  }
  if (static_cast<int64_t>(f.dense_tokens.size()) < layer.inputs) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(layer.key, ": no token is left for the cores"));
}

absl::Status CheckLowRank(const FactorisableLayer& layer, const LowRank& low) {
  const bool usable = !layer.embedding && low.heads >= 1 &&
                      low.heads <= kMaxHeads && low.scale > 0 &&
                      low.scale <= kMaxScale &&
                      (!low.linear || low.kind == LowRank::Kind::kCola);
  if (!usable) {
    return absl::InvalidArgumentError(
        absl::StrCat(layer.key, ": no layer of ", low.heads,
                     " heads and scale ", low.scale, " can be trained"));
  }
  return CheckRange((layer.key + ": rank").c_str(), low.rank, 1,
                    std::min(layer.inputs, layer.outputs));
}

// Adds the floats of the layer to *floats.
absl::Status CheckLayer(const FactorisableLayer& layer, const Factorisation& f,
                        double* floats) {
  const std::string& key = layer.key;
  RETURN_IF_ERROR(CheckDenseTokens(layer, f));
  *floats += static_cast<double>(f.dense_tokens.size()) * layer.outputs;
  if (f.dense()) {
    if (!f.output_modes.empty() || !f.ranks.empty() || f.silu) {
      return absl::InvalidArgumentError(absl::StrCat(
          key, ": output modes, ranks or a SiLU without input modes"));
    }
    *floats += static_cast<double>(layer.inputs) * layer.outputs;
    const LowRank& low = f.low_rank;
    if (low.kind == LowRank::Kind::kNone) return absl::OkStatus();
    *floats += (low.kind == LowRank::Kind::kLte ? 2.0 : 1.0) *
               static_cast<double>(low.heads) * low.rank *
               (layer.inputs + layer.outputs);
    return CheckLowRank(layer, low);
  }
  if (f.low_rank.kind != LowRank::Kind::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": cores and another method's form"));
  }
  if (f.silu && !MayActivate(layer)) {
    return absl::InvalidArgumentError(absl::StrCat(
        key, ": embeddings and output layers have no SiLU inside"));
  }
  if (f.output_modes.empty() || f.input_modes.size() > kMaxModes ||
      f.output_modes.size() > kMaxModes) {
    return absl::InvalidArgumentError(absl::StrCat(
        key, ": expected 1 to ", kMaxModes, " input and output modes"));
  }
  const int64_t inputs = Product(f.input_modes);
  const int64_t outputs = Product(f.output_modes);
  const bool inputs_may_exceed = layer.embedding;
  const bool outputs_may_exceed = layer.layer_class == "output";
  if (inputs < layer.inputs || (inputs > layer.inputs && !inputs_may_exceed)) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": product of input modes is ", inputs, ", expected ",
                     layer.inputs));
  }
  if (outputs < layer.outputs ||
      (outputs > layer.outputs && !outputs_may_exceed)) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": product of output modes is ", outputs,
                     ", expected ", layer.outputs));
  }
  std::vector<int64_t> modes = f.input_modes;
  if (layer.embedding) {
    if (f.input_modes.size() != f.output_modes.size() ||
        f.input_modes.size() < 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          key, ": row and column modes must be equally many, at least 2"));
    }
    for (size_t i = 0; i < modes.size(); ++i) modes[i] *= f.output_modes[i];
  } else {
    modes.insert(modes.end(), f.output_modes.begin(), f.output_modes.end());
  }
  const int order = static_cast<int>(modes.size());
  RETURN_IF_ERROR(CheckRanks(key, f, order));
  for (int i = 0; i < order; ++i) {
    const double left = i == 0 ? 1 : f.ranks[i - 1];
    const double right = i == order - 1 ? 1 : f.ranks[i];
    *floats += left * modes[i] * right;
  }
  return absl::OkStatus();
}

// What encoders and decoders have in common.
absl::Status CheckTransformer(const ModelConfig& config) {
  RETURN_IF_ERROR(CheckRange("vocabulary", config.vocabulary, 1, kMaxExtent));
  RETURN_IF_ERROR(CheckRange("model.layers", config.layers, 1, kMaxLayers));
  RETURN_IF_ERROR(CheckRange("model.hidden", config.hidden, 1, kMaxExtent));
  RETURN_IF_ERROR(CheckRange("model.ffn", config.ffn, 1, kMaxExtent));
  RETURN_IF_ERROR(CheckRange("model.heads", config.heads, 1, config.hidden));
  if (config.hidden % config.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.hidden: ", config.hidden,
                     " is not a multiple of model.heads, ", config.heads));
  }
  RETURN_IF_ERROR(
      CheckRange("model.max_positions", config.max_positions, 1, kMaxExtent));
  RETURN_IF_ERROR(
      CheckRange("data.max_length", config.length, 1, config.max_positions));
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    return absl::InvalidArgumentError("model.dropout: outside [0, 1)");
  }
  return absl::OkStatus();
}

absl::Status CheckEncoder(const ModelConfig& config) {
  const bool classifier = config.family == v1::ModelSpec::ENCODER_CLASSIFIER;
  if (!classifier && config.family != v1::ModelSpec::MASKED_LM) {
    return absl::InvalidArgumentError("model.family: unknown");
  }
  if (classifier && config.tie_output) {
    return absl::InvalidArgumentError(
        "model.tie_output: is for language models only");
  }
  RETURN_IF_ERROR(CheckTransformer(config));
  RETURN_IF_ERROR(CheckRange("model.segments", config.segments, 1, 1024));
  if (classifier) {
    RETURN_IF_ERROR(CheckRange("model.classes", config.classes, 1, kMaxExtent));
  }
  if (!(config.layer_norm_epsilon >= 0 && config.layer_norm_epsilon < 1)) {
    return absl::InvalidArgumentError("layer_norm_epsilon: outside [0, 1)");
  }
  return absl::OkStatus();
}

absl::Status CheckLlama(const ModelConfig& config) {
  RETURN_IF_ERROR(
      CheckRange("model.kv_heads", config.kv_heads, 1, config.heads));
  if (config.heads % config.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.kv_heads: ", config.kv_heads,
                     " does not divide model.heads, ", config.heads));
  }
  if (config.head_width() % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.hidden: rotary positions need heads of even width, "
                     "not ",
                     config.head_width()));
  }
  if (!(config.rope_theta > 0 && config.rope_theta <= kMaxTheta)) {
    return absl::InvalidArgumentError("model.rope_theta: outside (0, 1e12]");
  }
  return absl::OkStatus();
}

absl::Status CheckGpt2(const ModelConfig& config) {
  if (config.kv_heads != config.heads) {
    return absl::InvalidArgumentError("model.kv_heads: is for LLAMA only");
  }
  if (!config.tie_output) {
    return absl::InvalidArgumentError("model.tie_output: GPT2 is always tied");
  }
  if (!config.gate_silu) {
    return absl::InvalidArgumentError("gate_silu: GPT2 has no gates");
  }
  return absl::OkStatus();
}

absl::Status CheckDecoder(const ModelConfig& config) {
  if (config.architecture != v1::ModelSpec::LLAMA &&
      config.architecture != v1::ModelSpec::GPT2) {
    return absl::InvalidArgumentError("model.architecture: unknown");
  }
  RETURN_IF_ERROR(CheckTransformer(config));
  if (config.segments != 0) {
    return absl::InvalidArgumentError("model.segments: is for encoders only");
  }
  if (!(config.layer_norm_epsilon >= 0 && config.layer_norm_epsilon < 1)) {
    return absl::InvalidArgumentError("model.norm_epsilon: outside [0, 1)");
  }
  return config.llama() ? CheckLlama(config) : CheckGpt2(config);
}

std::vector<FactorisableLayer> EncoderLayers(const ModelConfig& config) {
  const int64_t d = config.hidden;
  std::vector<FactorisableLayer> layers;
  layers.push_back({"embedding", "encoder.embedding.word", "embedding",
                    config.vocabulary, d, true, false});
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string key = absl::StrCat("layers.", i, ".");
    const std::string name = absl::StrCat("encoder.layers.", i, ".");
    for (const char* part : {"query", "key", "value", "output"}) {
      layers.push_back({key + part, name + "attention." + part, "attention", d,
                        d, false, false});
    }
    layers.push_back({key + "ffn_up", name + "ffn.up", "ffn_up", d, config.ffn,
                      false, false});
    layers.push_back({key + "ffn_down", name + "ffn.down", "ffn_down",
                      config.ffn, d, false, false});
  }
  if (config.family == v1::ModelSpec::ENCODER_CLASSIFIER) {
    layers.push_back({"head", "head.fc1", "head", d, d, false, true});
  } else {
    layers.push_back({"head", "head.transform", "head", d, d, false, true});
    if (!config.tie_output) {
      layers.push_back({"output", "head.output", "output", d, config.vocabulary,
                        false, true});
    }
  }
  return layers;
}

std::vector<FactorisableLayer> DecoderLayers(const ModelConfig& config) {
  const int64_t d = config.hidden;
  const bool llama = config.llama();
  std::vector<FactorisableLayer> layers;
  layers.push_back({"embedding", "decoder.embedding.word", "embedding",
                    config.vocabulary, d, true, false});
  for (int64_t i = 0; i < config.layers; ++i) {
    const auto add = [&](const char* key, const char* name, const char* kind,
                         int64_t inputs, int64_t outputs) {
      layers.push_back({absl::StrCat("layers.", i, ".", key),
                        absl::StrCat("decoder.layers.", i, ".", name), kind,
                        inputs, outputs, false, false, /*bias=*/!llama});
    };
    add("query", "attention.query", "attention", d, d);
    add("key", "attention.key", "attention", d, config.key_width());
    add("value", "attention.value", "attention", d, config.key_width());
    add("output", "attention.output", "attention", d, d);
    if (llama) add("ffn_gate", "ffn.gate", "ffn_up", d, config.ffn);
    add("ffn_up", "ffn.up", "ffn_up", d, config.ffn);
    add("ffn_down", "ffn.down", "ffn_down", config.ffn, d);
  }
  if (!config.tie_output) {
    layers.push_back({"output", "head.output", "output", d, config.vocabulary,
                      false, true, /*bias=*/false});
  }
  return layers;
}

}  // namespace

std::vector<FactorisableLayer> FactorisableLayers(const ModelConfig& config) {
  if (config.family == v1::ModelSpec::DLRM) return DlrmLayers(config);
  return config.causal() ? DecoderLayers(config) : EncoderLayers(config);
}

const char* TransformerName(const ModelConfig& config) {
  return config.causal() ? "decoder" : "encoder";
}

int64_t LteHeads(const ModelConfig& config) {
  for (const auto& [key, f] : config.layers_by_name) {
    if (f.low_rank.kind == LowRank::Kind::kLte) return f.low_rank.heads;
  }
  return 1;
}

absl::Status CheckModelShape(const ModelConfig& config) {
  const bool dlrm = config.family == v1::ModelSpec::DLRM;
  RETURN_IF_ERROR(dlrm              ? CheckDlrm(config)
                  : config.causal() ? CheckDecoder(config)
                                    : CheckEncoder(config));
  if (config.rank_threshold >= 0 && config.rank_threshold < 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "compression.rank_threshold: outside [0, 1)");
}

absl::Status CheckModelConfig(const ModelConfig& config) {
  RETURN_IF_ERROR(CheckModelShape(config));
  double floats = static_cast<double>(config.max_positions + config.segments) *
                  config.hidden;
  const std::vector<FactorisableLayer> layers = FactorisableLayers(config);
  for (const FactorisableLayer& layer : layers) {
    const auto found = config.layers_by_name.find(layer.key);
    if (found == config.layers_by_name.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(layer.key, ": factorisation missing"));
    }
    RETURN_IF_ERROR(CheckLayer(layer, found->second, &floats));
  }
  for (const auto& [key, f] : config.layers_by_name) {
    const LowRank& low = f.low_rank;
    if (low.kind == LowRank::Kind::kLte && low.heads != LteHeads(config)) {
      return absl::InvalidArgumentError(absl::StrCat(
          key, ": ", low.heads, " heads, elsewhere ", LteHeads(config)));
    }
  }
  if (layers.size() != config.layers_by_name.size()) {
    return absl::InvalidArgumentError(
        "factorisations of layers that the model does not have");
  }
  if (floats > kMaxParameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: ", floats, " parameters are too many"));
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
