// Resolves a job's specification to a complete model configuration.
#include "worker/trainer/model/config/model_config.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/model/config/layer_table.h"

namespace comera::trainer {
namespace {

constexpr int kTtModes = 3;   // on each side at most, unless given
constexpr int kTtmModes = 4;  // rows and columns
constexpr int kMostModes = 16;
constexpr int64_t kDefaultRank = 30;
constexpr double kEncoderDropout = 0.1;
constexpr double kDecoderNormEpsilon = 1e-5;
constexpr int64_t kLlamaFfnMultiple = 32;

const v1::LayerCompression& CompressionOf(const v1::CompressionSpec& spec,
                                          const std::string& layer_class) {
  if (layer_class == "embedding") return spec.embedding();
  if (layer_class == "attention") return spec.attention();
  if (layer_class == "ffn_up") return spec.ffn_up();
  if (layer_class == "ffn_down") return spec.ffn_down();
  if (layer_class == "head") return spec.head();
  if (layer_class == "table") return spec.table();
  if (layer_class == "mlp") return spec.mlp();
  return spec.output();
}

// Whether these are keys or values of fewer heads than the queries have.
bool IsNarrow(const FactorisableLayer& layer) {
  return layer.layer_class == "attention" && layer.outputs < layer.inputs;
}

// A bond holds at most its left neighbour times the mode between, and the same
// from the right.
void CutRanks(const std::vector<int64_t>& modes, std::vector<int64_t>* ranks) {
  int64_t bound = 1;
  for (size_t i = 0; i < ranks->size(); ++i) {
    bound = (*ranks)[i] = std::min((*ranks)[i], bound * modes[i]);
  }
  bound = 1;
  for (size_t i = ranks->size(); i-- > 0;) {
    bound = (*ranks)[i] = std::min((*ranks)[i], bound * modes[i + 1]);
  }
}

// Numbers in the cores of a linear layer with so many automatic modes on each
// side.
double SizeOfTrain(const FactorisableLayer& layer, int count, int64_t rank) {
  std::vector<int64_t> modes = AutoModes(layer.inputs, count, false);
  std::vector<int64_t> outputs = AutoModes(layer.outputs, count, false);
  modes.insert(modes.end(), outputs.rbegin(), outputs.rend());
  std::vector<int64_t> ranks(modes.size() - 1, rank);
  CutRanks(modes, &ranks);
  double size = 0;
  for (size_t i = 0; i < modes.size(); ++i) {
    size += static_cast<double>(i == 0 ? 1 : ranks[i - 1]) *
            static_cast<double>(modes[i]) *
            static_cast<double>(i + 1 == modes.size() ? 1 : ranks[i]);
  }
  return size;
}

// Automatic modes on each side of a layer. In a transformer's block a train of
// more cores has to be less than half as large to be worth what it cannot
// express: at equal sizes one of two cores learns better (docs/concepts.md).
int ModesOfSide(const FactorisableLayer& layer,
                const v1::LayerCompression& spec) {
  if (layer.embedding) return kTtmModes;
  if (spec.ranks_size() > 1) {
    return std::min((spec.ranks_size() + 1) / 2, kMostModes);
  }
  if (layer.layer_class == "output" || layer.layer_class == "mlp" ||
      spec.input_modes_size() > 0 || spec.output_modes_size() > 0) {
    return kTtModes;
  }
  constexpr double kWorthACore = 2;
  const int64_t rank = std::clamp<int64_t>(
      spec.ranks_size() == 1 ? spec.ranks(0) : kDefaultRank, 1, 1 << 16);
  double smallest = SizeOfTrain(layer, 1, rank);
  for (int count = 2; count <= kTtModes; ++count) {
    smallest = std::min(smallest, SizeOfTrain(layer, count, rank));
  }
  int count = 1;
  while (SizeOfTrain(layer, count, rank) > kWorthACore * smallest) ++count;
  return count;
}

// Modes as given, or chosen: large ones outside, where the ranks are small.
// Output modes given for attention are those of its square layers; narrow ones
// have as many, of their own width.
void ChooseModes(const FactorisableLayer& layer,
                 const v1::LayerCompression& spec, Factorisation* f) {
  f->input_modes.assign(spec.input_modes().begin(), spec.input_modes().end());
  f->output_modes.assign(spec.output_modes().begin(),
                         spec.output_modes().end());
  const int usual = ModesOfSide(layer, spec);
  int output_count = usual;
  if (IsNarrow(layer) && !f->output_modes.empty()) {
    output_count = std::min(spec.output_modes().size(), kMostModes);
    f->output_modes.clear();
  }
  const auto count = [&](const std::vector<int64_t>& other, int otherwise) {
    return layer.embedding && !other.empty() ? static_cast<int>(other.size())
                                             : otherwise;
  };
  if (f->input_modes.empty()) {
    f->input_modes =
        AutoModes(layer.inputs, count(f->output_modes, usual), layer.embedding);
  }
  if (f->output_modes.empty()) {
    f->output_modes =
        AutoModes(layer.outputs, count(f->input_modes, output_count),
                  layer.layer_class == "output");
    if (!layer.embedding) {
      std::reverse(f->output_modes.begin(), f->output_modes.end());
    }
  }
}

absl::StatusOr<Factorisation> Factorise(const FactorisableLayer& layer,
                                        const v1::LayerCompression& spec) {
  const std::string field = absl::StrCat("compression.", layer.layer_class);
  Factorisation f;
  ChooseModes(layer, spec, &f);
  std::vector<int64_t> modes = f.input_modes;
  if (layer.embedding) {
    if (f.input_modes.size() != f.output_modes.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".output_modes: ", f.output_modes.size(),
                       " modes for ", f.input_modes.size(), " row modes"));
    }
    for (size_t i = 0; i < modes.size(); ++i) modes[i] *= f.output_modes[i];
  } else {
    modes.insert(modes.end(), f.output_modes.begin(), f.output_modes.end());
  }
  if (modes.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".input_modes: at least 2 modes are needed"));
  }
  const size_t bonds = modes.size() - 1;
  if (spec.ranks().empty()) {
    f.ranks.assign(bonds, kDefaultRank);
  } else if (spec.ranks().size() == 1) {
    f.ranks.assign(bonds, spec.ranks(0));
  } else {
    f.ranks.assign(spec.ranks().begin(), spec.ranks().end());
  }
  if (f.ranks.size() != bonds) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".ranks: ", f.ranks.size(), " ranks for ", bonds, " bonds"));
  }
  for (int64_t rank : f.ranks) {
    if (rank < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".ranks: ", rank, " is not positive"));
    }
  }
  for (int64_t mode : modes) {
    // Checked before ranks are multiplied by modes.
    if (mode < 1 || mode > (int64_t{1} << 26)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".input_modes: ", mode, " is out of range"));
    }
  }
  for (int64_t& rank : f.ranks) rank = std::min<int64_t>(rank, 1 << 16);
  CutRanks(modes, &f.ranks);
  return f;
}

// How the method trains a layer without cores. GaLore projects what has both
// sides above the rank; the others replace the linear layers of the blocks, at
// a rank that narrow ones can hold, and the heads are trained whole, as their
// authors do.
LowRank LowRankOf(const v1::CompressionSpec& spec,
                  const FactorisableLayer& layer) {
  using Kind = LowRank::Kind;
  LowRank low;
  if (layer.embedding) return low;
  const auto use = [&](Kind kind, int64_t rank, int64_t heads, double scale) {
    low.kind = kind;
    low.rank = IsNarrow(layer) ? std::min(rank, layer.outputs) : rank;
    low.heads = heads;
    low.scale = scale;
  };
  if (spec.method() == v1::CompressionSpec::GALORE) {
    const int64_t rank = spec.galore().rank();
    if (rank < std::min(layer.inputs, layer.outputs)) {
      use(Kind::kGalore, rank, 1, 1);
    }
    return low;
  }
  if (layer.in_head) return low;
  if (spec.method() == v1::CompressionSpec::LORA) {
    const int64_t rank = spec.lora().rank();
    use(Kind::kLora, rank, 1, spec.lora().alpha() / std::max<int64_t>(rank, 1));
  } else if (spec.method() == v1::CompressionSpec::LTE) {
    use(Kind::kLte, spec.lte().rank(), spec.lte().heads(), spec.lte().scale());
  } else if (spec.method() == v1::CompressionSpec::COLA) {
    use(Kind::kCola, spec.cola().rank(), 1, 1);
    low.linear = spec.cola().nonlinearity() == v1::ColaSpec::LINEAR;
  }
  return low;
}

// Whether a DLRM's layer may be compressed: the largest tables, and MLP layers
// that are wide on both sides.
class DlrmCompression {
 public:
  DlrmCompression(const v1::DlrmSpec& spec, const ClickShape& clicks)
      : min_width_(spec.min_compressed_width()) {
    std::vector<int64_t> rows = clicks.table_rows;
    std::sort(rows.begin(), rows.end(), std::greater<int64_t>());
    const auto count = std::min<int64_t>(spec.compressed_tables(), rows.size());
    if (count < 1) return;
    least_rows_ = rows[count - 1];
    // Where several tables have that size, the first ones are compressed.
    of_least_rows_ = count - (std::find(rows.begin(), rows.end(), least_rows_) -
                              rows.begin());
  }

  // Called once for every layer, in order.
  bool Wants(const FactorisableLayer& layer) {
    if (!layer.embedding) {
      return layer.inputs > min_width_ && layer.outputs > min_width_;
    }
    if (layer.inputs == least_rows_) return of_least_rows_-- > 0;
    return least_rows_ > 0 && layer.inputs > least_rows_;
  }

 private:
  const int64_t min_width_;
  int64_t least_rows_ = 0;
  int64_t of_least_rows_ = 0;
};

// Checks the configuration with all layers dense, which choosing modes relies
// on, then factorises the layers that `wants` names, and checks again.
absl::StatusOr<ModelConfig> WithFactorisations(
    ModelConfig config, const v1::CompressionSpec& compression,
    const std::function<bool(const FactorisableLayer&)>& wants) {
  if (compression.has_rank_threshold()) {
    config.rank_threshold = static_cast<float>(compression.rank_threshold());
  }
  RETURN_IF_ERROR(CheckModelShape(config));
  const std::vector<FactorisableLayer> layers = FactorisableLayers(config);
  for (const FactorisableLayer& layer : layers) {
    config.layers_by_name[layer.key] = Factorisation{};
  }
  RETURN_IF_ERROR(CheckModelConfig(config));
  const bool cores =
      compression.method() == v1::CompressionSpec::COMERA ||
      compression.method() == v1::CompressionSpec::METHOD_UNSPECIFIED;
  for (const FactorisableLayer& layer : layers) {
    const v1::LayerCompression& layer_spec =
        CompressionOf(compression, layer.layer_class);
    if (layer_spec.dense() || !wants(layer)) continue;
    if (!cores) {
      config.layers_by_name[layer.key].low_rank = LowRankOf(compression, layer);
      continue;
    }
    Factorisation& f = config.layers_by_name[layer.key];
    ASSIGN_OR_RETURN(f, Factorise(layer, layer_spec));
    f.silu = compression.inner_activation() == v1::CompressionSpec::SILU &&
             MayActivate(layer);
  }
  RETURN_IF_ERROR(CheckModelConfig(config));
  return config;
}

// The fields of the specification that only decoders have.
void SetDecoder(const v1::ModelSpec& model, ModelConfig* config) {
  config->architecture =
      model.architecture() == v1::ModelSpec::ARCHITECTURE_UNSPECIFIED
          ? v1::ModelSpec::LLAMA
          : model.architecture();
  config->kv_heads = model.kv_heads() != 0 ? model.kv_heads() : model.heads();
  if (model.has_rope_theta()) {
    config->rope_theta = static_cast<float>(model.rope_theta());
  }
  config->layer_norm_epsilon = static_cast<float>(
      model.has_norm_epsilon() ? model.norm_epsilon() : kDecoderNormEpsilon);
  config->segments = 0;
  config->tie_output |= config->architecture == v1::ModelSpec::GPT2;
}

// The hidden width itself is checked later; the default may not overflow
// before.
int64_t DefaultFfn(const ModelConfig& config) {
  const int64_t hidden = std::clamp<int64_t>(config.hidden, 0, 1 << 24);
  if (!config.llama()) return 4 * hidden;
  const int64_t width = (8 * hidden + 2) / 3;
  return (width + kLlamaFfnMultiple - 1) / kLlamaFfnMultiple *
         kLlamaFfnMultiple;
}

// With SiLU between its factors, the gate of CoLA has no other behind it.
void SetGate(v1::ColaSpec::Nonlinearity nonlinearity, ModelConfig* config) {
  const auto gate = config->layers_by_name.find("layers.0.ffn_gate");
  config->gate_silu = gate == config->layers_by_name.end() ||
                      gate->second.low_rank.kind != LowRank::Kind::kCola ||
                      gate->second.low_rank.linear ||
                      nonlinearity == v1::ColaSpec::BOTH;
}

absl::Status SetDenseTokens(const v1::LayerCompression& spec,
                            absl::Span<const int64_t> counts,
                            ModelConfig* config) {
  if (spec.dense_tokens() == 0) return absl::OkStatus();
  if (spec.dense_tokens() < 0 || spec.dense_tokens() >= config->vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        "compression.embedding.dense_tokens: ", spec.dense_tokens(),
        " is outside [0, ", config->vocabulary, "), the vocabulary"));
  }
  std::vector<int32_t> ids(config->vocabulary);
  std::iota(ids.begin(), ids.end(), 0);
  if (!counts.empty()) {
    std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
      return counts[a] > counts[b];
    });
  }
  ids.resize(spec.dense_tokens());
  std::sort(ids.begin(), ids.end());
  config->layers_by_name.at("embedding").dense_tokens = std::move(ids);
  return CheckModelConfig(*config);
}

}  // namespace

absl::StatusOr<ModelConfig> MakeModelConfig(
    const v1::JobSpec& spec, int64_t vocabulary,
    absl::Span<const int64_t> token_counts) {
  const v1::ModelSpec& model = spec.model();
  ModelConfig config;
  config.published_initialisation =
      spec.objective().kind() == v1::ObjectiveSpec::REFERENCE;
  config.family = model.family();
  config.vocabulary = vocabulary;
  config.layers = model.layers();
  config.hidden = model.hidden();
  config.heads = model.heads();
  config.length = spec.data().max_length();
  config.max_positions = model.max_positions() != 0 ? model.max_positions()
                                                    : spec.data().max_length();
  config.tie_output = model.tie_output();
  config.gradients_by_block =
      spec.compression().method() == v1::CompressionSpec::GALORE &&
      spec.compression().galore().per_layer();
  if (config.causal()) {
    SetDecoder(model, &config);
  } else {
    config.segments = model.segments() != 0 ? model.segments() : 2;
    config.classes = model.classes();
  }
  config.ffn = model.ffn() != 0 ? model.ffn() : DefaultFfn(config);
  const double usual_dropout = config.causal() ? 0 : kEncoderDropout;
  config.dropout = static_cast<float>(model.dropout_off()   ? 0
                                      : model.has_dropout() ? model.dropout()
                                                            : usual_dropout);
  ASSIGN_OR_RETURN(config, WithFactorisations(
                               std::move(config), spec.compression(),
                               [](const FactorisableLayer&) { return true; }));
  SetGate(spec.compression().cola().nonlinearity(), &config);
  RETURN_IF_ERROR(
      SetDenseTokens(spec.compression().embedding(), token_counts, &config));
  return config;
}

absl::StatusOr<ModelConfig> MakeModelConfig(const v1::JobSpec& spec,
                                            const ClickShape& clicks) {
  const v1::DlrmSpec& dlrm = spec.model().dlrm();
  ModelConfig config;
  config.published_initialisation =
      spec.objective().kind() == v1::ObjectiveSpec::REFERENCE;
  config.family = spec.model().family();
  config.length = 1;
  config.dropout = 0;
  config.segments = 0;
  config.clicks = clicks;
  config.bottom_mlp.assign(dlrm.bottom_mlp().begin(), dlrm.bottom_mlp().end());
  config.top_mlp.assign(dlrm.top_mlp().begin(), dlrm.top_mlp().end());
  DlrmCompression wanted(dlrm, clicks);
  return WithFactorisations(
      std::move(config), spec.compression(),
      [&](const FactorisableLayer& layer) { return wanted.Wants(layer); });
}

}  // namespace comera::trainer
