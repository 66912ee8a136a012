// The head of a language model and its loss, in chunks of label rows.
#include "worker/trainer/model/head/language_model_head.h"

#include <algorithm>

#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/head/tied_projection.h"
#include "worker/trainer/model/linear/make_linear.h"
#include "worker/trainer/model/plan/batch_padding.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

constexpr int64_t kFloat = sizeof(float);

// Rows enough for efficient products. In the host's memory logits take at most
// 32 MiB unless the vocabulary is huge; on a device 512 MiB, so that the labels
// of a masked language model, fewer than a quarter of its tokens, are one
// chunk.
int64_t ChunkRows(const Plan& plan) {
  const bool on_host = plan.backend->in_host_memory();
  const int64_t logits = int64_t{1} << (on_host ? 23 : 27);
  const int64_t tokens =
      plan.config->causal() ? plan.max_rows : plan.max_rows / 4;
  const int64_t most = on_host ? 512 : std::max<int64_t>(512, tokens);
  return std::min(
      std::clamp<int64_t>(logits / plan.config->vocabulary, 64, most),
      plan.max_rows);
}

std::unique_ptr<Linear> MakeTransform(const Plan& plan, int64_t max_rows) {
  if (plan.config->causal()) return nullptr;
  return MakeLinear(plan, "head", max_rows, "head.transform");
}

std::unique_ptr<Linear> MakeProjection(const Plan& plan, int64_t max_rows) {
  if (plan.config->tie_output) return std::make_unique<TiedProjection>(plan);
  return MakeLinear(plan, "output", max_rows, "head.output");
}

}  // namespace

LanguageModelHead::LanguageModelHead(const Plan& plan)
    : plan_(plan),
      hidden_(plan.config->hidden),
      vocabulary_(plan.config->vocabulary),
      chunk_rows_(ChunkRows(plan)),
      labels_(plan, plan.max_rows, plan.config->vocabulary),
      transform_(MakeTransform(plan, chunk_rows_)),
      projection_(MakeProjection(plan, chunk_rows_)),
      norm_(plan, "head.norm") {
  SavedMemory& saved = *plan.saved;
  const int64_t stream = chunk_rows_ * hidden_ * kFloat;
  gathered_ = saved.Reserve("head.gathered", stream);
  const int64_t transformed = transform_ == nullptr ? 0 : stream;
  transformed_ = saved.Reserve("head.transformed", transformed);
  activated_ = saved.Reserve("head.activated", transformed);
  deviation_ = saved.Reserve("head.deviation", chunk_rows_ * kFloat);
  normed_ = saved.Reserve("head.normed", stream);
  logits_ = saved.Reserve("head.logits", chunk_rows_ * vocabulary_ * kFloat);
  grad_ = saved.Reserve("head.grad.0", stream);
  other_grad_ = saved.Reserve("head.grad.1", stream);
  unused_totals_ = saved.Reserve("head.unused_totals", 3 * kFloat);
}

int64_t LanguageModelHead::chunks() const {
  return (labels_.size() + chunk_rows_ - 1) / chunk_rows_;
}

int64_t LanguageModelHead::ChunkSize(int64_t chunk) const {
  return std::min(chunk_rows_, labels_.size() - chunk * chunk_rows_);
}

Matrix LanguageModelHead::Saved(SavedMemory::Piece piece, int64_t rows,
                                int64_t cols) const {
  return Matrix(plan_.saved->Floats(piece), rows, cols);
}

absl::Status LanguageModelHead::SetBatch(const Batch& batch,
                                         const PackedBatch& packed, bool pad) {
  RETURN_IF_ERROR(projection_->SetUp());
  resident_chunk_ = -1;
  const int64_t labels = static_cast<int64_t>(batch.labels.size());
  return labels_.Set(batch, packed,
                     pad && labels <= plan_.max_rows
                         ? PaddedCount(labels, plan_.max_rows)
                         : 0);
}

Matrix LanguageModelHead::Normalised(int64_t rows) const {
  return Saved(transform_ == nullptr ? gathered_ : activated_, rows, hidden_);
}

absl::Status LanguageModelHead::RunChunk(const Step& step, int64_t chunk) {
  kernels::Backend& backend = *plan_.backend;
  resident_chunk_ = -1;
  const int64_t rows = ChunkSize(chunk);
  const Matrix gathered = Saved(gathered_, rows, hidden_);
  const Matrix normalised = Normalised(rows);
  const Matrix normed = Saved(normed_, rows, hidden_);
  RETURN_IF_ERROR(backend.GatherRows(
      encoded_, labels_.Rows(chunk * chunk_rows_, rows), gathered));
  if (transform_ != nullptr) {
    const Matrix transformed = Saved(transformed_, rows, hidden_);
    RETURN_IF_ERROR(transform_->Forward(step, 0, gathered, transformed));
    RETURN_IF_ERROR(
        backend.Activate(kernels::Activation::kGelu, transformed, normalised));
  }
  RETURN_IF_ERROR(norm_.Forward(step, normalised, normalised,
                                {plan_.saved->Floats(deviation_), rows},
                                normed));
  return projection_->Forward(step, 0, normed,
                              Saved(logits_, rows, vocabulary_));
}

absl::Status LanguageModelHead::ChunkLoss(const Step& step, int64_t chunk,
                                          float* totals) {
  const int64_t rows = ChunkSize(chunk);
  const Matrix logits = Saved(logits_, rows, vocabulary_);
  RETURN_IF_ERROR(plan_.backend->SoftmaxCrossEntropy(
      logits, labels_.Labels(chunk * chunk_rows_, rows),
      step.train ? logits : Matrix(nullptr, rows, vocabulary_), totals));
  if (step.train) resident_chunk_ = chunk;
  return absl::OkStatus();
}

absl::Status LanguageModelHead::Forward(const Step& step, ConstMatrix hidden,
                                        float* totals) {
  encoded_ = hidden;
  if (transform_ != nullptr) RETURN_IF_ERROR(transform_->Contract(step));
  RETURN_IF_ERROR(projection_->Contract(step));
  totals_ = totals;
  // Logits of several chunks would be computed here and again in Backward.
  loss_left_ = step.train && chunks() > 1;
  return loss_left_ ? absl::OkStatus() : ComputeLoss(step);
}

absl::Status LanguageModelHead::ComputeLoss(const Step& step) {
  loss_left_ = false;
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    RETURN_IF_ERROR(RunChunk(step, chunk));
    RETURN_IF_ERROR(ChunkLoss(step, chunk, totals_));
  }
  return absl::OkStatus();
}

absl::Status LanguageModelHead::CompleteLoss(const Step& step) {
  return loss_left_ ? ComputeLoss(step) : absl::OkStatus();
}

absl::Status LanguageModelHead::ChunkBackward(const Step& step, int64_t chunk,
                                              Matrix grad_hidden) {
  kernels::Backend& backend = *plan_.backend;
  const int64_t rows = ChunkSize(chunk);
  const Matrix grad = Saved(grad_, rows, hidden_);
  const Matrix other = Saved(other_grad_, rows, hidden_);
  RETURN_IF_ERROR(projection_->Backward(step, 0, Saved(normed_, rows, hidden_),
                                        Saved(logits_, rows, vocabulary_), grad,
                                        false));
  const kernels::ConstIndices label_rows =
      labels_.Rows(chunk * chunk_rows_, rows);
  RETURN_IF_ERROR(norm_.Backward(step, grad, Normalised(rows),
                                 {plan_.saved->Floats(deviation_), rows}, other,
                                 /*accumulate=*/false));
  if (transform_ == nullptr) {
    return backend.ScatterAddRows(other, label_rows, grad_hidden);
  }
  RETURN_IF_ERROR(backend.ActivateBackward(kernels::Activation::kGelu,
                                           Saved(transformed_, rows, hidden_),
                                           other, other));
  RETURN_IF_ERROR(transform_->Backward(step, 0, Saved(gathered_, rows, hidden_),
                                       other, grad, false));
  return backend.ScatterAddRows(grad, label_rows, grad_hidden);
}

absl::Status LanguageModelHead::Backward(const Step& step, Matrix grad_hidden) {
  RETURN_IF_ERROR(plan_.backend->Fill(
      {grad_hidden.data, grad_hidden.rows * grad_hidden.cols}, 0));
  float* totals = loss_left_ ? totals_ : plan_.saved->Floats(unused_totals_);
  loss_left_ = false;
  for (int64_t chunk = chunks(); chunk-- > 0;) {
    if (resident_chunk_ != chunk) {
      RETURN_IF_ERROR(RunChunk(step, chunk));
      RETURN_IF_ERROR(ChunkLoss(step, chunk, totals));
    }
    RETURN_IF_ERROR(ChunkBackward(step, chunk, grad_hidden));
  }
  if (transform_ != nullptr) {
    RETURN_IF_ERROR(transform_->FinishBackward(step));
  }
  return projection_->FinishBackward(step);
}

absl::Status LanguageModelHead::ReadLogits(const Step& step,
                                           std::vector<float>* logits) {
  logits->resize(labels_.count() * vocabulary_);
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    RETURN_IF_ERROR(RunChunk(step, chunk));
    const int64_t first = chunk * chunk_rows_;
    const int64_t rows = std::min(
        ChunkSize(chunk), std::max<int64_t>(0, labels_.count() - first));
    RETURN_IF_ERROR(plan_.backend->CopyToHost(
        logits->data() + first * vocabulary_, plan_.saved->Floats(logits_),
        rows * vocabulary_ * kFloat));
  }
  return plan_.backend->Synchronize();
}

}  // namespace comera::trainer
