// Finds a dense model's tensors in a checkpoint of safetensors.
#include "worker/trainer/model/weights/dense_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

constexpr char kWords[] = "encoder.embedding.word.weight";
constexpr char kPositions[] = "encoder.embedding.position";
constexpr char kSegments[] = "encoder.embedding.segment";
constexpr char kOutput[] = "head.output.weight";
constexpr char kOutputBias[] = "head.output.bias";
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

// The axis (of ours) along which the file may have more, or -1.
int GrowingAxis(const std::string& parameter) {
  if (parameter == kOutput) return 1;
  const bool grows = parameter == kWords || parameter == kPositions ||
                     parameter == kSegments || parameter == kOutputBias;
  return grows ? 0 : -1;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), ")");
}

}  // namespace

absl::StatusOr<DenseCheckpoint> DenseCheckpoint::Open(const std::string& path) {
  DenseCheckpoint checkpoint;
  checkpoint.path_ = path;
  ASSIGN_OR_RETURN(checkpoint.file_, Safetensors::Read(path));
  const auto& tensors = checkpoint.file_.tensors();
  if (tensors.count(kWords) > 0) {
    checkpoint.ours_ = true;
    return checkpoint;
  }
  int found = 0;
  bool lm_head = false;
  for (const auto& [name, tensor] : tensors) {
    absl::string_view prefix = name;
    if (absl::ConsumeSuffix(&prefix, kTheirWords)) {
      checkpoint.prefix_ = std::string(prefix);
      ++found;
    }
    lm_head |= absl::StartsWith(name, "lm_head.") ||
               absl::StartsWith(name, "classifier.out_proj.");
  }
  if (found != 1) {
    const bool compressed = tensors.count("encoder.embedding.word.core.0") > 0;
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", found == 0 ? "no" : "more than one",
        " word embedding: expected one tensor ", kWords, " or [bert.|roberta.]",
        kTheirWords,
        compressed ? "; it holds a compressed model, not a dense one" : ""));
  }
  const auto positions = tensors.find(checkpoint.prefix_ + kTheirPositions);
  const bool odd_table =
      positions != tensors.end() && !positions->second.shape.empty() &&
      positions->second.shape[0] % 64 == kRobertaFirstPosition;
  if (absl::StrContains(checkpoint.prefix_, "roberta") || lm_head ||
      odd_table) {
    checkpoint.first_position_ = kRobertaFirstPosition;
  }
  return checkpoint;
}

const char* DenseCheckpoint::naming() const {
  return ours_ ? "comera" : first_position_ > 0 ? "RoBERTa" : "BERT";
}

std::vector<DenseCheckpoint::Candidate> DenseCheckpoint::Candidates(
    const std::string& parameter) const {
  std::vector<Candidate> candidates;
  if (ours_) {
    candidates.push_back({parameter, false});
    if (parameter == kOutput) candidates.push_back({kWords, true});
    return candidates;
  }
  if (parameter == kWords) return {{prefix_ + kTheirWords, false}};
  if (parameter == kPositions) return {{prefix_ + kTheirPositions, false}};
  if (parameter == kSegments) {
    return {{prefix_ + "embeddings.token_type_embeddings.weight", false}};
  }
  const size_t dot = parameter.rfind('.');
  const std::string leaf = parameter.substr(dot + 1);
  std::vector<std::string> leaves = {leaf};
  if (leaf == "gamma") leaves = {"weight", "gamma"};
  if (leaf == "beta") leaves = {"bias", "beta"};
  for (const std::string& module :
       TheirModules(parameter.substr(0, dot), prefix_)) {
    for (const std::string& their_leaf : leaves) {
      candidates.push_back(
          {absl::StrCat(module, ".", their_leaf), leaf == "weight"});
    }
  }
  if (parameter == kOutput) candidates.push_back({prefix_ + kTheirWords, true});
  return candidates;
}

const DenseCheckpoint::Candidate* DenseCheckpoint::Find(
    const std::vector<Candidate>& candidates) const {
  for (const Candidate& candidate : candidates) {
    if (file_.tensors().count(candidate.name) > 0) return &candidate;
  }
  return nullptr;
}

bool DenseCheckpoint::Has(const std::string& parameter) const {
  return Find(Candidates(parameter)) != nullptr;
}

std::string DenseCheckpoint::NameInFile(const std::string& parameter) const {
  const std::vector<Candidate> candidates = Candidates(parameter);
  if (candidates.empty()) return parameter;
  const Candidate* found = Find(candidates);
  return found == nullptr ? candidates[0].name : found->name;
}

int64_t DenseCheckpoint::TableRows(const std::string& parameter) const {
  const auto found = file_.tensors().find(NameInFile(parameter));
  if (found == file_.tensors().end() || found->second.shape.empty()) return 0;
  const int64_t skipped = parameter == kPositions ? first_position_ : 0;
  return std::max<int64_t>(0, found->second.shape[0] - skipped);
}

absl::StatusOr<std::vector<float>> DenseCheckpoint::Get(
    const std::string& parameter, const std::vector<int64_t>& shape) {
  const std::vector<Candidate> candidates = Candidates(parameter);
  const Candidate* found = Find(candidates);
  if (found == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(path_, ": no tensor ", NameInFile(parameter)));
  }
  const bool transposed = found->transposed && shape.size() == 2;
  std::vector<int64_t> expected = shape;
  int growing = GrowingAxis(parameter);
  if (transposed) {
    std::swap(expected[0], expected[1]);
    if (growing >= 0) growing = 1 - growing;
  }
  const int64_t skipped = parameter == kPositions ? first_position_ : 0;
  if (skipped > 0) expected[0] += skipped;
  const std::vector<int64_t>& actual = file_.tensors().at(found->name).shape;
  bool fits = actual.size() == expected.size();
  for (size_t i = 0; fits && i < actual.size(); ++i) {
    fits = actual[i] == expected[i] ||
           (static_cast<int>(i) == growing && actual[i] > expected[i]);
  }
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": tensor ", found->name, " has shape ", ShapeText(actual),
        ", expected ", ShapeText(expected),
        growing >= 0 ? " or more on axis " : "",
        growing >= 0 ? absl::StrCat(growing) : "", " for ", parameter));
  }
  absl::StatusOr<std::vector<float>> values = file_.GetFloat(found->name);
  if (!values.ok()) {
    return absl::Status(values.status().code(),
                        absl::StrCat(path_, ": ", values.status().message()));
  }
  if (!std::all_of(values->begin(), values->end(),
                   [](float x) { return std::isfinite(x); })) {
    return absl::DataLossError(absl::StrCat(
        path_, ": tensor ", found->name, " holds values that are not finite"));
  }
  read_.insert(found->name);
  if (shape.size() == 1) {
    values->resize(shape[0]);
    return values;
  }
  std::vector<float> result(shape[0] * shape[1]);
  const int64_t columns = actual[1];
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t j = 0; j < shape[1]; ++j) {
      result[i * shape[1] + j] = transposed
                                     ? (*values)[j * columns + i]
                                     : (*values)[(i + skipped) * columns + j];
    }
  }
  return result;
}

std::vector<std::string> DenseCheckpoint::Unread() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file_.tensors()) {
    if (read_.count(name) == 0) names.push_back(name);
  }
  return names;
}

}  // namespace comera::trainer
