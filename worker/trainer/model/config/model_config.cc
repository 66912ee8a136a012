// Resolves a job's specification to a complete model configuration.
#include "worker/trainer/model/config/model_config.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/model/config/layer_table.h"

namespace comera::trainer {
namespace {

constexpr int kTtModes = 3;   // on each side, unless given
constexpr int kTtmModes = 4;  // rows and columns
constexpr int64_t kDefaultRank = 30;

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

// Modes as given, or chosen: large ones outside, where the ranks are small.
void ChooseModes(const FactorisableLayer& layer,
                 const v1::LayerCompression& spec, Factorisation* f) {
  f->input_modes.assign(spec.input_modes().begin(), spec.input_modes().end());
  f->output_modes.assign(spec.output_modes().begin(),
                         spec.output_modes().end());
  const int usual = layer.embedding ? kTtmModes : kTtModes;
  const auto count = [&](const std::vector<int64_t>& other) {
    return layer.embedding && !other.empty() ? static_cast<int>(other.size())
                                             : usual;
  };
  if (f->input_modes.empty()) {
    f->input_modes =
        AutoModes(layer.inputs, count(f->output_modes), layer.embedding);
  }
  if (f->output_modes.empty()) {
    f->output_modes = AutoModes(layer.outputs, count(f->input_modes),
                                layer.layer_class == "output");
    if (!layer.embedding) {
      std::reverse(f->output_modes.begin(), f->output_modes.end());
    }
  }
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
// sides above the rank; the others replace the encoder's linear layers, and
// the heads are trained whole, as their authors do.
LowRank LowRankOf(const v1::CompressionSpec& spec,
                  const FactorisableLayer& layer) {
  using Kind = LowRank::Kind;
  LowRank low;
  if (layer.embedding) return low;
  const auto use = [&](Kind kind, int64_t rank, int64_t heads, double scale) {
    low.kind = kind;
    low.rank = rank;
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
  if (compression.rank_threshold() != 0) {
    config.rank_threshold = static_cast<float>(compression.rank_threshold());
  }
  const std::vector<FactorisableLayer> layers = [&] {
    ModelConfig bounded = config;
    bounded.layers = std::clamp<int64_t>(config.layers, 0, 1024);
    return FactorisableLayers(bounded);
  }();
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
    ASSIGN_OR_RETURN(config.layers_by_name[layer.key],
                     Factorise(layer, layer_spec));
  }
  RETURN_IF_ERROR(CheckModelConfig(config));
  return config;
}

}  // namespace

absl::StatusOr<ModelConfig> MakeModelConfig(const v1::JobSpec& spec,
                                            int64_t vocabulary) {
  const v1::ModelSpec& model = spec.model();
  ModelConfig config;
  config.published_initialisation =
      spec.objective().kind() == v1::ObjectiveSpec::REFERENCE;
  config.family = model.family();
  config.vocabulary = vocabulary;
  config.layers = model.layers();
  config.hidden = model.hidden();
  // The width itself is checked below; its default may not overflow before.
  config.ffn = model.ffn() != 0
                   ? model.ffn()
                   : 4 * std::clamp<int64_t>(model.hidden(), 0, 1 << 24);
  config.heads = model.heads();
  config.length = spec.data().max_length();
  config.max_positions = model.max_positions() != 0 ? model.max_positions()
                                                    : spec.data().max_length();
  config.segments = model.segments() != 0 ? model.segments() : 2;
  config.classes = model.classes();
  config.tie_output = model.tie_output();
  config.gradients_by_block =
      spec.compression().method() == v1::CompressionSpec::GALORE &&
      spec.compression().galore().per_layer();
  config.dropout = static_cast<float>(model.dropout_off()    ? 0
                                      : model.dropout() != 0 ? model.dropout()
                                                             : 0.1);
  return WithFactorisations(std::move(config), spec.compression(),
                            [](const FactorisableLayer&) { return true; });
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
