// The classifier head on the first token, and its loss.
#include "worker/trainer/model/head/classifier_head.h"

#include "common/status_macros.h"
#include "worker/trainer/model/linear/make_linear.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

ClassifierHead::ClassifierHead(const Plan& plan)
    : plan_(plan),
      hidden_(plan.config->hidden),
      classes_(plan.config->classes),
      labels_(plan, plan.max_batch, plan.config->classes),
      fc1_(MakeLinear(plan, "head", plan.max_batch, "linear")),
      fc2_(plan, "head.fc2") {
  const int64_t row_bytes = plan.max_batch * int64_t{sizeof(float)};
  SavedMemory& saved = *plan.saved;
  pooled_ = saved.Reserve("head.pooled", hidden_ * row_bytes);
  activated_ = saved.Reserve("head.activated", hidden_ * row_bytes);
  logits_ = saved.Reserve("head.logits", classes_ * row_bytes);
  grad_logits_ = saved.Reserve("head.grad_logits", classes_ * row_bytes);
  grad_ = saved.Reserve("head.grad", hidden_ * row_bytes);
}

Matrix ClassifierHead::Saved(SavedMemory::Piece piece, int64_t cols) const {
  return Matrix(plan_.saved->Floats(piece), labels_.size(), cols);
}

absl::Status ClassifierHead::SetBatch(const Batch& batch,
                                      const PackedBatch& packed, bool pad) {
  return labels_.Set(batch, packed, pad ? plan_.max_batch : 0);
}

absl::Status ClassifierHead::Forward(const Step& step, ConstMatrix hidden,
                                     float* totals) {
  kernels::Backend& backend = *plan_.backend;
  const int64_t count = labels_.size();
  const Matrix pooled = Saved(pooled_, hidden_);
  const Matrix activated = Saved(activated_, hidden_);
  const Matrix logits = Saved(logits_, classes_);
  RETURN_IF_ERROR(backend.GatherRows(hidden, labels_.Rows(0, count), pooled));
  RETURN_IF_ERROR(fc1_->Contract(step));
  RETURN_IF_ERROR(fc1_->Forward(step, 0, pooled, activated));
  RETURN_IF_ERROR(
      backend.Activate(kernels::Activation::kTanh, activated, activated));
  RETURN_IF_ERROR(fc2_.Forward(step, 0, activated, logits));
  return backend.SoftmaxCrossEntropy(logits, labels_.Labels(0, count),
                                     step.train
                                         ? Saved(grad_logits_, classes_)
                                         : Matrix(nullptr, count, classes_),
                                     totals);
}

absl::Status ClassifierHead::Backward(const Step& step, Matrix grad_hidden) {
  kernels::Backend& backend = *plan_.backend;
  const Matrix grad = Saved(grad_, hidden_);
  const Matrix activated = Saved(activated_, hidden_);
  RETURN_IF_ERROR(fc2_.Backward(step, 0, activated,
                                Saved(grad_logits_, classes_), grad, false));
  RETURN_IF_ERROR(backend.ActivateBackward(kernels::Activation::kTanh,
                                           activated, grad, grad));
  // Its output is not needed any more, so the gradient goes there.
  RETURN_IF_ERROR(
      fc1_->Backward(step, 0, Saved(pooled_, hidden_), grad, activated, false));
  RETURN_IF_ERROR(fc1_->FinishBackward(step));
  RETURN_IF_ERROR(
      backend.Fill({grad_hidden.data, grad_hidden.rows * grad_hidden.cols}, 0));
  return backend.ScatterAddRows(activated, labels_.Rows(0, labels_.size()),
                                grad_hidden);
}

absl::Status ClassifierHead::ReadLogits(const Step&,
                                        std::vector<float>* logits) {
  logits->resize(labels_.count() * classes_);
  return plan_.backend->CopyToHost(
      logits->data(), plan_.saved->Floats(logits_),
      static_cast<int64_t>(logits->size() * sizeof(float)));
}

}  // namespace comera::trainer
