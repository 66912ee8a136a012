// Looks rows up in a table that is stored as it is.
#include "worker/trainer/model/embedding/dense_embedding.h"

#include "common/status_macros.h"
#include "worker/trainer/model/plan/unique_ids.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

DenseEmbedding::DenseEmbedding(const Plan& plan, const std::string& name,
                               int64_t max_ids)
    : plan_(plan), weight_(plan.At(name + ".weight")), max_ids_(max_ids) {
  padded_ids_.reserve(max_ids);
  ids_ = plan.saved->Reserve(name + ".ids", max_ids * sizeof(int32_t));
}

absl::Status DenseEmbedding::SetIds(absl::Span<const int32_t> ids,
                                    int64_t padded_rows) {
  RETURN_IF_ERROR(CheckUniqueIds(ids, max_ids_, weight_.shape[0]));
  padded_ids_.assign(ids.begin(), ids.end());
  // Rows of which nobody has a gradient, different ones.
  while (static_cast<int64_t>(padded_ids_.size()) < padded_rows) {
    padded_ids_.push_back(
        static_cast<int32_t>(padded_ids_.size() % weight_.shape[0]));
  }
  count_ = static_cast<int64_t>(padded_ids_.size());
  return plan_.backend->CopyToDevice(
      plan_.saved->Address(ids_), padded_ids_.data(), count_ * sizeof(int32_t));
}

absl::Status DenseEmbedding::Forward(const Step& step, Matrix rows) {
  return plan_.backend->GatherRows(
      ConstMatrix(step.parameters + weight_.offset, weight_.shape[0],
                  weight_.shape[1]),
      ids(), rows);
}

absl::Status DenseEmbedding::Backward(const Step& step, ConstMatrix grad_rows) {
  return plan_.backend->ScatterAddRows(
      grad_rows, ids(),
      Matrix(step.Gradient(weight_).data, weight_.shape[0], weight_.shape[1]));
}

}  // namespace comera::trainer
