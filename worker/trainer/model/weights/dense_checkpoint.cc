// Finds a dense model's tensors in a checkpoint of safetensors.
#include "worker/trainer/model/weights/dense_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/weights/decoder_naming.h"
#include "worker/trainer/model/weights/encoder_naming.h"

namespace comera::trainer {
namespace {

constexpr char kOutput[] = "head.output.weight";

// A file holds the model's weights, of 8 bytes at most, and perhaps a larger
// vocabulary and other heads.
constexpr int64_t kBytesPerParameter = 32;
constexpr int64_t kMoreBytes = int64_t{4} << 30;

// What the vocabulary's table is called in an encoder and in a decoder.
const char* Words(const ModelConfig& config) {
  return config.causal() ? "decoder.embedding.word.weight"
                         : "encoder.embedding.word.weight";
}

// The names that ExportModel writes.
class OurNaming : public TensorNaming {
 public:
  explicit OurNaming(std::string words) : words_(std::move(words)) {}

  const char* name() const override { return "comera"; }

  std::vector<TensorPlace> Places(const std::string& parameter) const override {
    if (parameter != kOutput) return {{parameter}};
    return {{parameter}, {words_, true}};
  }

 private:
  const std::string words_;
};

// The axis (of ours) along which the file may have more, or -1.
int GrowingAxis(const std::string& parameter) {
  if (parameter == kOutput) return 1;
  for (const char* table :
       {"encoder.embedding.word.weight", "encoder.embedding.position",
        "encoder.embedding.segment", "decoder.embedding.word.weight",
        "decoder.embedding.position", "head.output.bias"}) {
    if (parameter == table) return 0;
  }
  return -1;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), ")");
}

// The tensor's shape where `shape` is the parameter's; swaps *growing, too.
std::vector<int64_t> ShapeInFile(std::vector<int64_t> shape,
                                 const TensorPlace& place, int* growing) {
  if (place.transposed && shape.size() == 2) {
    std::swap(shape[0], shape[1]);
    if (*growing >= 0) *growing = 1 - *growing;
  }
  shape[0] += place.skipped_rows;
  shape.back() *= place.parts;
  return shape;
}

// The parameter's values out of a tensor with rows of so many columns.
std::vector<float> Extract(const std::vector<float>& values, int64_t columns,
                           const TensorPlace& place,
                           const std::vector<int64_t>& shape) {
  if (shape.size() == 1) {
    const auto first = values.begin() + place.part * shape[0];
    return {first, first + shape[0]};
  }
  std::vector<float> result(shape[0] * shape[1]);
  const int64_t first_column = place.part * shape[1];
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t j = 0; j < shape[1]; ++j) {
      result[i * shape[1] + j] =
          place.transposed
              ? values[j * columns + i]
              : values[(i + place.skipped_rows) * columns + first_column + j];
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<DenseCheckpoint> DenseCheckpoint::Open(
    const std::string& path, const ModelConfig& config) {
  ModelConfig dense = config;
  for (auto& [key, f] : dense.layers_by_name) f = {};
  const int64_t parameters = MakeModelLayout(dense).parameters.size();
  ASSIGN_OR_RETURN(CheckpointTensors tensors,
                   CheckpointTensors::Open(
                       path, kMoreBytes + kBytesPerParameter * parameters));
  DenseCheckpoint checkpoint;
  checkpoint.tensors_ = std::make_unique<CheckpointTensors>(std::move(tensors));
  checkpoint.layers_ = config.layers;
  const std::string words = Words(config);
  const std::set<std::string>& names = checkpoint.tensors_->names();
  if (names.count(words) > 0) {
    checkpoint.naming_ = std::make_unique<OurNaming>(words);
    return checkpoint;
  }
  absl::StatusOr<std::unique_ptr<TensorNaming>> naming =
      config.causal()
          ? FindDecoderNaming(*checkpoint.tensors_, config.architecture)
          : FindEncoderNaming(checkpoint.tensors_.get());
  if (!naming.ok()) {
    for (const char* part : {"encoder", "decoder"}) {
      if (names.count(absl::StrCat(part, ".embedding.word.core.0")) == 0) {
        continue;
      }
      return absl::Status(
          naming.status().code(),
          absl::StrCat(naming.status().message(),
                       "; it holds a compressed model, not a dense one"));
    }
    return naming.status();
  }
  checkpoint.naming_ = *std::move(naming);
  return checkpoint;
}

std::optional<TensorPlace> DenseCheckpoint::Find(
    const std::string& parameter) const {
  for (const TensorPlace& place : naming_->Places(parameter)) {
    if (tensors_->names().count(place.name) > 0) return place;
  }
  return std::nullopt;
}

bool DenseCheckpoint::Has(const std::string& parameter) const {
  return Find(parameter).has_value();
}

std::string DenseCheckpoint::NameInFile(const std::string& parameter) const {
  if (const std::optional<TensorPlace> found = Find(parameter)) {
    return found->name;
  }
  const std::vector<TensorPlace> places = naming_->Places(parameter);
  return places.empty() ? parameter : places[0].name;
}

absl::StatusOr<int64_t> DenseCheckpoint::TableRows(
    const std::string& parameter) {
  const std::optional<TensorPlace> found = Find(parameter);
  if (!found) return 0;
  ASSIGN_OR_RETURN(const std::vector<int64_t> shape,
                   tensors_->GetShape(found->name));
  if (shape.empty()) return 0;
  return std::max<int64_t>(0, shape[0] - found->skipped_rows);
}

absl::StatusOr<std::vector<float>> DenseCheckpoint::Get(
    const std::string& parameter, const std::vector<int64_t>& shape) {
  const std::optional<TensorPlace> found = Find(parameter);
  if (!found) {
    return absl::NotFoundError(
        absl::StrCat(path(), ": no tensor ", NameInFile(parameter)));
  }
  int growing = GrowingAxis(parameter);
  const std::vector<int64_t> expected = ShapeInFile(shape, *found, &growing);
  ASSIGN_OR_RETURN(const std::vector<int64_t> actual,
                   tensors_->GetShape(found->name));
  bool fits = actual.size() == expected.size();
  for (size_t i = 0; fits && i < actual.size(); ++i) {
    fits = actual[i] == expected[i] ||
           (static_cast<int>(i) == growing && actual[i] > expected[i]);
  }
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        path(), ": tensor ", found->name, " has shape ", ShapeText(actual),
        ", expected ", ShapeText(expected),
        growing >= 0 ? " or more on axis " : "",
        growing >= 0 ? absl::StrCat(growing) : "", " for ", parameter));
  }
  ASSIGN_OR_RETURN(const std::vector<float> values,
                   tensors_->GetFloat(found->name));
  if (!std::all_of(values.begin(), values.end(),
                   [](float x) { return std::isfinite(x); })) {
    return absl::DataLossError(absl::StrCat(
        path(), ": tensor ", found->name, " holds values that are not finite"));
  }
  read_.insert(found->name);
  return Extract(values, actual.back(), *found, shape);
}

std::vector<std::string> DenseCheckpoint::Unread() const {
  std::vector<std::string> names;
  for (const std::string& name : tensors_->names()) {
    if (read_.count(name) == 0) names.push_back(name);
  }
  return names;
}

std::vector<std::string> DenseCheckpoint::NeededBesides(
    const std::vector<std::string>& parameters) const {
  std::set<std::string> used;
  for (const std::string& parameter : parameters) {
    used.insert(NameInFile(parameter));
  }
  std::vector<std::string> names;
  for (const std::string& name : tensors_->names()) {
    if (used.count(name) == 0 && !naming_->MayBeLeftOut(name, layers_)) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace comera::trainer
