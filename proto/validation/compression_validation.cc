// Checks modes, ranks, targets and the settings of each compression method.

#include "proto/validation/compression_validation.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/model_family.h"

namespace comera {
namespace {

using Modes = google::protobuf::RepeatedField<int64_t>;

constexpr int kMaxModes = 64;
constexpr int64_t kMaxRank = 4096;
constexpr int64_t kMaxDenseTokens = int64_t{1} << 20;
// The trainer chooses at most 16 modes for each side of a matrix.
constexpr int kMostListedRanks = 31;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxMethodSteps = 1'000'000'000;
constexpr double kMaxScale = 1e6;
constexpr int64_t kMaxProduct = int64_t{1} << 31;

// The number that a product of modes must equal.
struct Width {
  // The number; 0 if it is not known.
  int64_t value;
  // Whether the product may be larger.
  bool padded;
  std::string name;
};

// The product of the modes, or nothing after a violation was added.
std::optional<int64_t> Product(const std::string& field, const Modes& modes,
                               SpecChecker& check) {
  if (modes.size() > kMaxModes) {
    check.Add(field, absl::StrCat("has more than ", kMaxModes, " modes"));
    return std::nullopt;
  }
  int64_t product = 1;
  for (int i = 0; i < modes.size(); ++i) {
    if (modes[i] < 1) {
      check.Add(absl::StrCat(field, "[", i, "]"),
                absl::StrCat("must be at least 1, not ", modes[i]));
      return std::nullopt;
    }
    if (modes[i] > kMaxProduct / product) {
      check.Add(field, absl::StrCat("has a product above ", kMaxProduct));
      return std::nullopt;
    }
    product *= modes[i];
  }
  return product;
}

void CheckModes(const std::string& field, const Modes& modes,
                const Width& width, SpecChecker& check) {
  const std::optional<int64_t> product = Product(field, modes, check);
  if (!product || width.value <= 0) return;
  const bool fits =
      width.padded ? *product >= width.value : *product == width.value;
  check.Require(fits, field,
                absl::StrCat(absl::StrJoin(modes, " x "), " = ", *product,
                             width.padded ? " is below " : " is not ",
                             width.name, " ", width.value));
}

// Refuses settings of layers that only the other kind of model has.
void CheckOtherFamily(const v1::CompressionSpec& c, SpecChecker& check) {
  const std::pair<const char*, bool> fields[] = {
      {"compression.embedding", c.has_embedding()},
      {"compression.attention", c.has_attention()},
      {"compression.ffn_up", c.has_ffn_up()},
      {"compression.ffn_down", c.has_ffn_down()},
      {"compression.head", c.has_head()},
      {"compression.output", c.has_output()},
  };
  for (const auto& [field, is_set] : fields) {
    check.Require(!is_set, field, "is not for DLRM, which has table and mlp");
  }
}

// A chain of `cores` cores has cores - 1 inner bonds. Modes that are chosen
// automatically (0 cores) are as many on both sides of a matrix, which the
// number of its ranks decides; those of a table have a fixed number.
void CheckRanks(const std::string& field, const Modes& ranks, int64_t cores,
                bool ttm, SpecChecker& check) {
  for (int i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 1 || ranks[i] > kMaxRank) {
      check.Add(absl::StrCat(field, "[", i, "]"),
                absl::StrCat("must be 1 to ", kMaxRank, ", not ", ranks[i]));
      return;
    }
  }
  if (ranks.size() <= 1) return;
  if (cores == 0 && ttm) {
    check.Add(field,
              "must be one number where the modes are chosen automatically");
    return;
  }
  if (cores == 0) {
    check.Require(ranks.size() % 2 == 1 && ranks.size() <= kMostListedRanks,
                  field,
                  absl::StrCat("has ", ranks.size(),
                               " ranks: without modes, give one for all bonds, "
                               "or an odd number of them, at most ",
                               kMostListedRanks));
    return;
  }
  check.Require(ranks.size() == cores - 1, field,
                absl::StrCat("has ", ranks.size(), " ranks for ", cores - 1,
                             " bonds (or give one number for all)"));
}

void CheckLayer(const std::string& name, const v1::LayerCompression& layer,
                const Width& input, const Width& output, bool ttm,
                SpecChecker& check) {
  const std::string field = absl::StrCat("compression.", name);
  const std::string input_field = absl::StrCat(field, ".input_modes");
  const std::string output_field = absl::StrCat(field, ".output_modes");
  const int inputs = layer.input_modes_size();
  const int outputs = layer.output_modes_size();
  // Tables of different sizes share the modes of their width; an encoder has
  // only one table.
  const bool automatic_rows = name == "table" && inputs == 0 && outputs > 0;
  if (automatic_rows) {
    CheckModes(output_field, layer.output_modes(), output, check);
  } else if (inputs == 0 && outputs > 0) {
    check.Add(input_field, "is missing beside output_modes");
  } else if (outputs == 0 && inputs > 0) {
    check.Add(output_field, "is missing beside input_modes");
  } else if (inputs > 0) {
    CheckModes(input_field, layer.input_modes(), input, check);
    CheckModes(output_field, layer.output_modes(), output, check);
    check.Require(
        inputs == outputs, output_field,
        absl::StrCat("has ", outputs, " modes, input_modes ", inputs));
  }
  check.Require(!layer.has_dense_tokens() || name == "embedding",
                absl::StrCat(field, ".dense_tokens"),
                "is for the word embedding only (compression.embedding)");
  const int64_t cores = !ttm             ? inputs + outputs
                        : automatic_rows ? outputs
                                         : inputs;
  CheckRanks(absl::StrCat(field, ".ranks"), layer.ranks(), cores, ttm, check);
}

// Checks the word embedding's dense rows, which leave some rows to its cores.
void CheckDenseTokens(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::LayerCompression& embedding = spec.compression().embedding();
  constexpr char kField[] = "compression.embedding.dense_tokens";
  if (embedding.dense_tokens() == 0) return;
  const int64_t vocabulary = spec.data().tokenizer().train_vocabulary_size();
  check.Range(kField, embedding.dense_tokens(), 0,
              vocabulary > 0 ? vocabulary - 1 : kMaxDenseTokens);
  check.Require(
      !embedding.dense(), kField,
      "is for a table with cores, compression.embedding.dense is true");
  check.Require(
      spec.compression().method() == v1::CompressionSpec::COMERA, kField,
      absl::StrCat(
          "is for COMERA, the method is ",
          v1::CompressionSpec::Method_Name(spec.compression().method())));
}

// Checks that every head gets the same number of samples of every batch, and of
// every part that it is computed in.
void CheckHeadsShare(const v1::JobSpec& spec, SpecChecker& check) {
  const int64_t heads = spec.compression().lte().heads();
  const int64_t parts = std::max<int64_t>(1, spec.training().accumulate());
  const auto shares = [&](int64_t batch, const std::string& field) {
    if (heads < 1) return;
    check.Require(batch % heads == 0, field,
                  absl::StrCat(batch, " is no multiple of ", heads,
                               " heads (compression.lte.heads)"));
    if (batch % heads != 0 || batch % parts != 0) return;
    check.Require(batch / parts % heads == 0, "training.accumulate",
                  absl::StrCat("must make parts whose samples ", heads,
                               " heads (compression.lte.heads) divide: ", field,
                               " ", batch, " / ", parts, " = ", batch / parts));
  };
  shares(spec.training().batch_size(), "training.batch_size");
  for (int i = 0; i < spec.training().phases_size(); ++i) {
    shares(spec.training().phases(i).batch_size(),
           absl::StrCat("training.phases[", i, "].batch_size"));
  }
}

// Refuses what needs the gradients of all layers at once.
void CheckPerLayerUpdates(const v1::JobSpec& spec, SpecChecker& check) {
  if (!spec.compression().galore().per_layer()) return;
  check.Require(spec.optimizer().clip_norm() == 0, "optimizer.clip_norm",
                "must be 0 with compression.galore.per_layer: the norm that "
                "clips needs the gradients of all layers at once");
  check.Require(spec.resources().processes() == 1, "resources.processes",
                "must be 1 with compression.galore.per_layer: the sum over "
                "processes needs the gradients of all layers at once");
  check.Require(spec.training().accumulate() <= 1, "training.accumulate",
                "must be 1 with compression.galore.per_layer: the sum over "
                "parts needs the gradients of all layers at once");
  check.Require(spec.training().spike_factor() == 0, "training.spike_factor",
                "must be 0 with compression.galore.per_layer: the norm that it "
                "watches needs the gradients of all layers at once");
  check.Require(
      !spec.objective().has_late() || spec.objective().early().only(),
      "objective.late",
      "is not for compression.galore.per_layer: the late stage decides by the "
      "gradients of all layers at once");
}

void CheckInnerActivation(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::CompressionSpec& c = spec.compression();
  constexpr char kField[] = "compression.inner_activation";
  if (c.inner_activation() != v1::CompressionSpec::SILU) return;
  check.Require(c.method() == v1::CompressionSpec::COMERA, kField,
                absl::StrCat("is for COMERA, the method is ",
                             v1::CompressionSpec::Method_Name(c.method())));
  check.Require(spec.model().family() != v1::ModelSpec::DLRM, kField,
                "is for transformers, the model is a DLRM");
  check.Require(spec.initial_weights().safetensors().empty(),
                "initial_weights.safetensors",
                "holds dense weights, which layers with "
                "compression.inner_activation SILU cannot take");
}

// Checks the settings of the chosen method, and refuses those of others.
void CheckMethod(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::CompressionSpec& c = spec.compression();
  const std::string& method = v1::CompressionSpec::Method_Name(c.method());
  const auto other = [&](bool given, v1::CompressionSpec::Method owner,
                         const char* field) {
    check.Require(
        !given || c.method() == owner, field,
        absl::StrCat("is for ", v1::CompressionSpec::Method_Name(owner),
                     ", the method is ", method));
    return given && c.method() == owner;
  };
  const bool fits_family = spec.model().family() != v1::ModelSpec::DLRM ||
                           c.method() == v1::CompressionSpec::COMERA ||
                           c.method() == v1::CompressionSpec::DENSE;
  check.Require(fits_family, "compression.method",
                absl::StrCat(method,
                             " is not for DLRM, which trains with COMERA or "
                             "DENSE"));
  const int64_t width = std::min(spec.model().hidden(), spec.model().ffn());
  const auto rank = [&](const char* field, int64_t value) {
    check.Range(field, value, 1, std::clamp<int64_t>(width, 1, kMaxRank));
  };
  if (other(c.has_galore(), v1::CompressionSpec::GALORE,
            "compression.galore")) {
    // Layers that are no wider than the rank are trained in full.
    check.Range("compression.galore.rank", c.galore().rank(), 1, kMaxRank);
    check.Range("compression.galore.refresh_every_steps",
                c.galore().refresh_every_steps(), 1, kMaxMethodSteps);
    check.Weight("compression.galore.scale", c.galore().scale(), kMaxScale);
    CheckPerLayerUpdates(spec, check);
  }
  if (other(c.has_lora(), v1::CompressionSpec::LORA, "compression.lora")) {
    rank("compression.lora.rank", c.lora().rank());
    check.Weight("compression.lora.alpha", c.lora().alpha(), kMaxScale);
  }
  if (other(c.has_lte(), v1::CompressionSpec::LTE, "compression.lte")) {
    rank("compression.lte.rank", c.lte().rank());
    check.Range("compression.lte.heads", c.lte().heads(), 1, kMaxHeads);
    check.Weight("compression.lte.scale", c.lte().scale(), kMaxScale);
    check.Range("compression.lte.merge_every_steps",
                c.lte().merge_every_steps(), 1, kMaxMethodSteps);
    CheckHeadsShare(spec, check);
  }
  if (other(c.has_cola(), v1::CompressionSpec::COLA, "compression.cola")) {
    check.Require(spec.initial_weights().safetensors().empty(),
                  "initial_weights.safetensors",
                  "holds dense weights, COLA has none that could take them");
    rank("compression.cola.rank", c.cola().rank());
    check.Require(
        c.cola().nonlinearity() != v1::ColaSpec::BOTH || IsLlama(spec.model()),
        "compression.cola.nonlinearity",
        "BOTH is for LLAMA only, whose SwiGLU is the second one; "
        "others take BETWEEN_FACTORS or LINEAR");
  }
  CheckInnerActivation(spec, check);
}

// Refuses size targets for methods other than those that shrink cores during
// training.
void CheckSizeTargets(const v1::JobSpec& spec, SpecChecker& check) {
  if (spec.compression().method() == v1::CompressionSpec::COMERA) return;
  const v1::LateStage& late = spec.objective().late();
  const auto ratio = [&](bool given, double value, const std::string& field) {
    check.Require(!given || value == 1, field,
                  absl::StrCat("must be 1: ",
                               v1::CompressionSpec::Method_Name(
                                   spec.compression().method()),
                               " does not make a model smaller, COMERA does"));
  };
  ratio(late.has_target_ratio(), late.target_ratio(),
        "objective.late.target_ratio");
  for (int i = 0; i < late.targets_size(); ++i) {
    ratio(late.targets(i).has_target_ratio(), late.targets(i).target_ratio(),
          absl::StrCat("objective.late.targets[", i, "].target_ratio"));
  }
}

// Checks the layers of encoders and decoders.
void CheckTransformerLayers(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::CompressionSpec& c = spec.compression();
  const Width hidden = {spec.model().hidden(), false, "model.hidden"};
  const Width ffn = {spec.model().ffn(), false, "model.ffn"};
  const Width vocabulary = {spec.data().tokenizer().train_vocabulary_size(),
                            true, "the vocabulary's"};
  CheckLayer("embedding", c.embedding(), vocabulary, hidden, true, check);
  CheckDenseTokens(spec, check);
  CheckLayer("attention", c.attention(), hidden, hidden, false, check);
  CheckLayer("ffn_up", c.ffn_up(), hidden, ffn, false, check);
  CheckLayer("ffn_down", c.ffn_down(), ffn, hidden, false, check);
  if (HasHeadLayer(spec.model())) {
    CheckLayer("head", c.head(), hidden, hidden, false, check);
  } else {
    check.Require(!c.has_head(), "compression.head",
                  "is for encoders: between the last block and the output, a "
                  "CAUSAL_LM has no layer");
  }
  if (HasOutputLayer(spec.model())) {
    CheckLayer("output", c.output(), hidden, vocabulary, false, check);
  } else {
    check.Require(!c.has_output(), "compression.output",
                  IsLanguageModel(spec.model())
                      ? "contradicts model.tie_output, which GPT2 always has"
                      : "is for MASKED_LM and CAUSAL_LM only");
  }
}

void CheckDlrmLayers(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::CompressionSpec& c = spec.compression();
  CheckOtherFamily(c, check);
  int64_t most_rows = 0;
  for (int64_t rows : spec.data().synthetic_clicks().table_rows()) {
    most_rows = std::max(most_rows, rows);
  }
  const v1::DlrmSpec& dlrm = spec.model().dlrm();
  const Width rows = {most_rows, true, "the largest table's rows"};
  const Width width = {
      dlrm.bottom_mlp().empty() ? 0 : *dlrm.bottom_mlp().rbegin(), false,
      "model.dlrm.bottom_mlp's last"};
  CheckLayer("table", c.table(), rows, width, true, check);
  check.Require(c.mlp().input_modes().empty() && c.mlp().output_modes().empty(),
                "compression.mlp",
                "takes no modes: its layers differ in width, so that they are "
                "chosen automatically");
  CheckLayer("mlp", c.mlp(), {0, false, ""}, {0, false, ""}, false, check);
}

}  // namespace

void CheckCompression(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::CompressionSpec& c = spec.compression();
  if (spec.model().family() == v1::ModelSpec::DLRM) {
    CheckDlrmLayers(spec, check);
  } else {
    CheckTransformerLayers(spec, check);
  }
  CheckMethod(spec, check);
  CheckSizeTargets(spec, check);
  check.Require(c.rank_threshold() >= 0 && c.rank_threshold() < 1,
                "compression.rank_threshold", "must lie between 0 and 1");
  check.Range("compression.compact_every_steps", c.compact_every_steps(), 1,
              1'000'000'000);
}

}  // namespace comera
