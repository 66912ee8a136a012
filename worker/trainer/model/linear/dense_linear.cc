// A linear layer whose matrix is stored as it is.
#include "worker/trainer/model/linear/dense_linear.h"

#include "common/status_macros.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

DenseLinear::DenseLinear(const Plan& plan, const std::string& name)
    : backend_(plan.backend),
      weight_(plan.At(name + ".weight")),
      bias_(plan, name),
      inputs_(weight_.shape[0]),
      outputs_(weight_.shape[1]) {}

absl::Status DenseLinear::Forward(const Step& step, int64_t, ConstMatrix x,
                                  Matrix y) {
  const ConstMatrix w(step.parameters + weight_.offset, inputs_, outputs_);
  return bias_.Product(step, false, x, w, y);
}

absl::Status DenseLinear::Repeat(const Step& step, int64_t first_row,
                                 ConstMatrix x, Matrix y) {
  return Forward(step, first_row, x, y);
}

absl::Status DenseLinear::Backward(const Step& step, int64_t, ConstMatrix x,
                                   ConstMatrix grad_y, Matrix grad_x,
                                   bool accumulate) {
  RETURN_IF_ERROR(bias_.Backward(step, grad_y));
  const Matrix grad_w(step.Gradient(weight_).data, inputs_, outputs_);
  RETURN_IF_ERROR(backend_->Gemm(true, false, 1, x, grad_y, 1, grad_w));
  if (grad_x.data == nullptr) return absl::OkStatus();
  const ConstMatrix w(step.parameters + weight_.offset, inputs_, outputs_);
  return backend_->Gemm(false, true, 1, grad_y, w, accumulate ? 1 : 0, grad_x);
}

}  // namespace comera::trainer
