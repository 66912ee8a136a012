// Sums and normalises word, position and segment embeddings.
#include "worker/trainer/model/embedding/input_embedding.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/dropout_sites.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::ConstIndices;
using kernels::ConstMatrix;
using kernels::Matrix;
using kernels::Vector;

namespace {

constexpr int64_t kFloat = sizeof(float);

}  // namespace

InputEmbedding::InputEmbedding(const Plan& plan)
    : plan_(plan),
      hidden_(plan.config->hidden),
      words_(plan),
      position_(plan.At("encoder.embedding.position")),
      segment_(plan.At("encoder.embedding.segment")),
      gamma_(plan.At("encoder.embedding.norm.gamma")),
      beta_(plan.At("encoder.embedding.norm.beta")) {
  const ModelConfig& config = *plan.config;
  const int64_t rows = plan.max_rows;
  const int64_t stream_bytes = rows * hidden_ * kFloat;
  place_rows_.reserve(rows);

  SavedMemory& saved = *plan.saved;
  place_index_ = saved.Reserve("embedding.place_index", rows * kFloat);
  normalised_ = saved.Reserve("embedding.normalised", stream_bytes);
  deviation_ = saved.Reserve("embedding.deviation", rows * kFloat);

  table_ = plan.workspace->Reserve(
      "embedding.places", config.segments * config.length * hidden_ * kFloat);
}

absl::Status InputEmbedding::SetBatch(const Batch& batch,
                                      const PackedBatch& packed, bool pad) {
  const int64_t rows = batch.size * batch.length;
  if (static_cast<int64_t>(batch.segments.size()) != rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch: ", batch.segments.size(), " segments for ", rows, " tokens"));
  }
  const int64_t tokens = packed.tokens();
  place_rows_.resize(tokens);
  for (int64_t i = 0; i < rows; ++i) {
    if (batch.segments[i] < 0 || batch.segments[i] >= plan_.config->segments) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch: segment ", batch.segments[i], " is outside ",
                       plan_.config->segments));
    }
  }
  for (int64_t i = 0; i < tokens; ++i) {
    const int64_t place = packed.places()[i];
    place_rows_[i] = static_cast<int32_t>(batch.segments[place] * batch.length +
                                          place % batch.length);
  }
  RETURN_IF_ERROR(words_.SetBatch(batch, packed, pad));
  return plan_.backend->CopyToDevice(plan_.saved->Address(place_index_),
                                     place_rows_.data(),
                                     place_rows_.size() * sizeof(int32_t));
}

void InputEmbedding::AppendShape(std::vector<int64_t>* shape) const {
  words_.AppendShape(shape);
}

kernels::DropoutKey InputEmbedding::Dropout(const Step& step) const {
  return step.Dropout(plan_.config->dropout, kEmbeddingDropout);
}

absl::Status InputEmbedding::Output(const Step& step, Matrix y) const {
  return plan_.backend->LayerNormOutput(
      Dropout(step),
      ConstMatrix(plan_.saved->Floats(normalised_), y.rows, hidden_),
      step.Vector(gamma_), step.Vector(beta_), y);
}

// The rows of `segment` in a table of position + segment.
Matrix InputEmbedding::PositionSegment(const Step& step, float* table,
                                       int64_t segment) const {
  return Matrix(table + segment * step.length * hidden_, step.length, hidden_);
}

absl::Status InputEmbedding::Forward(const Step& step, Matrix y) {
  kernels::Backend& backend = *plan_.backend;
  const SavedMemory& saved = *plan_.saved;
  const int64_t rows = step.rows();
  const int64_t segments = plan_.config->segments;

  // Words begin where the normalised sums end, places where y ends.
  const Matrix words(saved.Floats(normalised_), rows, hidden_);
  RETURN_IF_ERROR(words_.Forward(step, words));

  float* table = plan_.workspace->Floats(table_);
  for (int64_t s = 0; s < segments; ++s) {
    const Matrix part = PositionSegment(step, table, s);
    RETURN_IF_ERROR(backend.Copy(part.data, step.parameters + position_.offset,
                                 step.length * hidden_ * kFloat));
    RETURN_IF_ERROR(backend.AddBias(
        {step.parameters + segment_.offset + s * hidden_, hidden_}, part));
  }
  RETURN_IF_ERROR(
      backend.GatherRows(ConstMatrix(table, segments * step.length, hidden_),
                         ConstIndices(saved.Ints(place_index_), rows), y));
  RETURN_IF_ERROR(backend.ResidualLayerNorm(
      {}, words, y, step.Vector(gamma_), step.Vector(beta_),
      plan_.config->layer_norm_epsilon, words,
      Vector(saved.Floats(deviation_), rows), y));
  const kernels::DropoutKey key = Dropout(step);
  return key.rate > 0 ? backend.Dropout(key, y, y) : absl::OkStatus();
}

absl::Status InputEmbedding::Backward(const Step& step, Matrix grad) {
  kernels::Backend& backend = *plan_.backend;
  const SavedMemory& saved = *plan_.saved;
  const int64_t rows = step.rows();
  const int64_t segments = plan_.config->segments;

  const kernels::DropoutKey key = Dropout(step);
  if (key.rate > 0) RETURN_IF_ERROR(backend.Dropout(key, grad, grad));
  RETURN_IF_ERROR(backend.ResidualLayerNormBackward(
      {}, grad, ConstMatrix(saved.Floats(normalised_), rows, hidden_),
      {saved.Floats(deviation_), rows}, step.Vector(gamma_),
      Matrix(nullptr, rows, hidden_), grad, step.Gradient(gamma_),
      step.Gradient(beta_)));

  float* table = plan_.workspace->Floats(table_);
  const int64_t places = segments * step.length;
  RETURN_IF_ERROR(backend.Fill({table, places * hidden_}, 0));
  RETURN_IF_ERROR(
      backend.ScatterAddRows(grad, ConstIndices(saved.Ints(place_index_), rows),
                             Matrix(table, places, hidden_)));
  for (int64_t s = 0; s < segments; ++s) {
    const Matrix part = PositionSegment(step, table, s);
    RETURN_IF_ERROR(
        backend.Axpy(1, {part.data, step.length * hidden_},
                     {step.Gradient(position_).data, step.length * hidden_}));
    RETURN_IF_ERROR(backend.BiasGradient(
        part, {step.Gradient(segment_).data + s * hidden_, hidden_}));
  }
  return words_.Backward(step, grad);
}

}  // namespace comera::trainer
