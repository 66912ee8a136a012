// Maps our parameters to the names of BERT and RoBERTa checkpoints.
#include "worker/trainer/model/weights/encoder_naming.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

constexpr char kTheirWords[] = "embeddings.word_embeddings.weight";
constexpr char kTheirPositions[] = "embeddings.position_embeddings.weight";
// RoBERTa numbers positions from its padding id on.
constexpr int64_t kRobertaFirstPosition = 2;

struct Rename {
  absl::string_view ours;
  absl::string_view theirs;
};

constexpr Rename kLayerParts[] = {
    {"attention.query", "attention.self.query"},
    {"attention.key", "attention.self.key"},
    {"attention.value", "attention.self.value"},
    {"attention.output", "attention.output.dense"},
    {"attention.norm", "attention.output.LayerNorm"},
    {"ffn.up", "intermediate.dense"},
    {"ffn.down", "output.dense"},
    {"ffn.norm", "output.LayerNorm"},
};

// Heads have no prefix; the pooler does, written "@" here.
constexpr Rename kHeadParts[] = {
    {"head.transform", "cls.predictions.transform.dense"},
    {"head.transform", "lm_head.dense"},
    {"head.norm", "cls.predictions.transform.LayerNorm"},
    {"head.norm", "lm_head.layer_norm"},
    {"head.output", "cls.predictions.decoder"},
    {"head.output", "lm_head.decoder"},
    {"head.output", "cls.predictions"},  // its bias
    {"head.output", "lm_head"},
    {"head.fc1", "classifier.dense"},
    {"head.fc1", "@pooler.dense"},
    {"head.fc2", "classifier.out_proj"},
    {"head.fc2", "classifier"},
};

// The module's names, where `parameter` is one of its leaves.
std::vector<std::string> TheirModules(absl::string_view module,
                                      absl::string_view prefix) {
  std::vector<std::string> names;
  absl::string_view rest = module;
  if (module == "encoder.embedding.norm") {
    names.push_back(absl::StrCat(prefix, "embeddings.LayerNorm"));
  } else if (absl::ConsumePrefix(&rest, "encoder.layers.")) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(rest, absl::MaxSplits('.', 1));
    for (const Rename& part : kLayerParts) {
      if (parts.second != part.ours) continue;
      names.push_back(absl::StrCat(prefix, "encoder.layer.", parts.first, ".",
                                   part.theirs));
    }
  } else {
    for (const Rename& part : kHeadParts) {
      if (module != part.ours) continue;
      absl::string_view name = part.theirs;
      const bool prefixed = absl::ConsumePrefix(&name, "@");
      names.push_back(absl::StrCat(prefixed ? prefix : "", name));
    }
  }
  return names;
}

class EncoderNaming : public TensorNaming {
 public:
  EncoderNaming(std::string prefix, bool roberta)
      : prefix_(std::move(prefix)), roberta_(roberta) {}

  const char* name() const override { return roberta_ ? "RoBERTa" : "BERT"; }

  std::vector<TensorPlace> Places(const std::string& parameter) const override {
    if (parameter == "encoder.embedding.word.weight") {
      return {{prefix_ + kTheirWords}};
    }
    if (parameter == "encoder.embedding.position") {
      TensorPlace place{prefix_ + kTheirPositions};
      place.skipped_rows = roberta_ ? kRobertaFirstPosition : 0;
      return {place};
    }
    if (parameter == "encoder.embedding.segment") {
      return {{prefix_ + "embeddings.token_type_embeddings.weight"}};
    }
    const size_t dot = parameter.rfind('.');
    const std::string leaf = parameter.substr(dot + 1);
    std::vector<std::string> leaves = {leaf};
    if (leaf == "gamma") leaves = {"weight", "gamma"};
    if (leaf == "beta") leaves = {"bias", "beta"};
    std::vector<TensorPlace> places;
    for (const std::string& module :
         TheirModules(parameter.substr(0, dot), prefix_)) {
      for (const std::string& their_leaf : leaves) {
        places.push_back(
            {absl::StrCat(module, ".", their_leaf), leaf == "weight"});
      }
    }
    if (parameter == "head.output.weight") {
      places.push_back({prefix_ + kTheirWords, true});
    }
    return places;
  }

 private:
  const std::string prefix_;
  const bool roberta_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TensorNaming>> FindEncoderNaming(
    CheckpointTensors* tensors) {
  int found = 0;
  bool lm_head = false;
  std::string prefix;
  for (const std::string& name : tensors->names()) {
    absl::string_view rest = name;
    if (absl::ConsumeSuffix(&rest, kTheirWords)) {
      prefix = std::string(rest);
      ++found;
    }
    lm_head |= absl::StartsWith(name, "lm_head.") ||
               absl::StartsWith(name, "classifier.out_proj.");
  }
  if (found != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        tensors->path(), ": ", found == 0 ? "no" : "more than one",
        " word embedding: expected one tensor encoder.embedding.word.weight or "
        "[bert.|roberta.]",
        kTheirWords));
  }
  const std::string positions = prefix + kTheirPositions;
  bool odd_table = false;
  if (tensors->names().count(positions) > 0) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> shape,
                     tensors->GetShape(positions));
    odd_table = !shape.empty() && shape[0] % 64 == kRobertaFirstPosition;
  }
  const bool roberta =
      absl::StrContains(prefix, "roberta") || lm_head || odd_table;
  return std::make_unique<EncoderNaming>(prefix, roberta);
}

}  // namespace comera::trainer
