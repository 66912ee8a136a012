// Looks rows up in a table that is stored as it is.
#include "worker/trainer/model/embedding/dense_embedding.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

DenseEmbedding::DenseEmbedding(const Plan& plan, const std::string& name,
                               int64_t max_ids)
    : backend_(plan.backend),
      weight_(plan.At(name + ".weight")),
      ids_(plan, name, weight_.shape[0], max_ids) {}

absl::Status DenseEmbedding::Forward(const Step& step, Matrix rows) {
  return backend_->GatherRows(ConstMatrix(step.parameters + weight_.offset,
                                          weight_.shape[0], weight_.shape[1]),
                              ids_.get(), rows);
}

absl::Status DenseEmbedding::Backward(const Step& step, ConstMatrix grad_rows) {
  return backend_->ScatterAddRows(
      grad_rows, ids_.get(),
      Matrix(step.Gradient(weight_).data, weight_.shape[0], weight_.shape[1]));
}

}  // namespace comera::trainer
