#include "worker/trainer/model/dense_embedding.h"

namespace comera::trainer {

DenseEmbedding::DenseEmbedding(const Plan& plan, const std::string& name)
    : backend_(plan.backend), weight_(plan.At(name + ".weight")) {}

absl::Status DenseEmbedding::Forward(const Step& step,
                                     kernels::ConstIndices ids,
                                     kernels::Matrix rows) {
  return backend_->GatherRows(
      kernels::ConstMatrix(step.parameters + weight_.offset, weight_.shape[0],
                           weight_.shape[1]),
      ids, rows);
}

absl::Status DenseEmbedding::Backward(const Step& step,
                                      kernels::ConstIndices ids,
                                      kernels::ConstMatrix grad_rows) {
  return backend_->ScatterAddRows(
      grad_rows, ids,
      kernels::Matrix(step.gradients + weight_.offset, weight_.shape[0],
                      weight_.shape[1]));
}

}  // namespace comera::trainer
