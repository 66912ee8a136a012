// LayerNorm and RMSNorm of rows as wide as the residual stream.
#include "worker/trainer/model/linear/row_norm.h"

#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::ConstVector;
using kernels::Matrix;
using kernels::Vector;

RowNorm::RowNorm(const Plan& plan, const std::string& name)
    : plan_(plan),
      gamma_(plan.At(name + ".gamma")),
      beta_(plan.Find(name + ".beta")) {}

absl::Status RowNorm::Forward(const Step& step, ConstMatrix x,
                              Matrix normalised, Vector deviation,
                              Matrix y) const {
  const float epsilon = plan_.config->layer_norm_epsilon;
  if (beta_ == nullptr) {
    return plan_.backend->RmsNorm(x, step.Vector(gamma_), epsilon, normalised,
                                  deviation, y);
  }
  return plan_.backend->ResidualLayerNorm(
      {}, x, ConstMatrix(nullptr, x.rows, x.cols), step.Vector(gamma_),
      step.Vector(*beta_), epsilon, normalised, deviation, y);
}

absl::Status RowNorm::Repeat(const Step& step, ConstMatrix normalised,
                             Matrix y) const {
  return plan_.backend->LayerNormOutput(
      {}, normalised, step.Vector(gamma_),
      beta_ == nullptr ? ConstVector() : step.Vector(*beta_), y);
}

absl::Status RowNorm::Backward(const Step& step, Matrix grad_y,
                               ConstMatrix normalised, ConstVector deviation,
                               Matrix grad_x, bool accumulate) const {
  kernels::Backend& backend = *plan_.backend;
  const Vector sum(grad_x.data, grad_x.rows * grad_x.cols);
  if (beta_ == nullptr) {
    if (!accumulate) RETURN_IF_ERROR(backend.Fill(sum, 0));
    return backend.RmsNormBackward(grad_y, normalised, deviation,
                                   step.Vector(gamma_), grad_x,
                                   step.Gradient(gamma_));
  }
  const Matrix own = accumulate ? grad_y : grad_x;
  RETURN_IF_ERROR(backend.ResidualLayerNormBackward(
      {}, grad_y, normalised, deviation, step.Vector(gamma_),
      Matrix(nullptr, grad_y.rows, grad_y.cols), own, step.Gradient(gamma_),
      step.Gradient(*beta_)));
  if (!accumulate) return absl::OkStatus();
  return backend.Axpy(1, {own.data, sum.size}, sum);
}

}  // namespace comera::trainer
