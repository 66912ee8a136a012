// Adds word and learned position embeddings of a decoder.
#include "worker/trainer/model/embedding/decoder_embedding.h"

#include "common/status_macros.h"
#include "worker/trainer/model/config/dropout_sites.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

DecoderEmbedding::DecoderEmbedding(const Plan& plan)
    : plan_(plan),
      words_(plan),
      position_(plan.Find("decoder.embedding.position")) {
  if (position_ == nullptr) return;
  rows_ = plan.workspace->Reserve(
      "embedding.positions",
      plan.max_rows * plan.config->hidden * int64_t{sizeof(float)});
}

absl::Status DecoderEmbedding::Dropout(const Step& step, Matrix x) const {
  const kernels::DropoutKey key =
      step.Dropout(plan_.config->dropout, kEmbeddingDropout);
  return key.rate > 0 ? plan_.backend->Dropout(key, x, x) : absl::OkStatus();
}

absl::Status DecoderEmbedding::AddPositions(const Step& step, Matrix y) const {
  const Matrix rows(plan_.workspace->Floats(rows_), y.rows, y.cols);
  RETURN_IF_ERROR(plan_.backend->GatherRows(
      ConstMatrix(step.Vector(*position_).data, position_->shape[0], y.cols),
      step.positions, rows));
  return plan_.backend->Axpy(1, {rows.data, y.rows * y.cols},
                             {y.data, y.rows * y.cols});
}

absl::Status DecoderEmbedding::Forward(const Step& step, Matrix y) {
  RETURN_IF_ERROR(words_.Forward(step, y));
  if (position_ != nullptr) RETURN_IF_ERROR(AddPositions(step, y));
  return Dropout(step, y);
}

absl::Status DecoderEmbedding::Backward(const Step& step, Matrix grad) {
  RETURN_IF_ERROR(Dropout(step, grad));
  if (position_ != nullptr) {
    RETURN_IF_ERROR(
        plan_.backend->ScatterAddRows(grad, step.positions,
                                      Matrix(step.Gradient(*position_).data,
                                             position_->shape[0], grad.cols)));
  }
  return words_.Backward(step, grad);
}

}  // namespace comera::trainer
