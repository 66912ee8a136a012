// CoLA: two thin matrices with a function between them.
#include "worker/trainer/model/linear/cola_linear.h"

#include "common/status_macros.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

ColaLinear::ColaLinear(const Plan& plan, const std::string& name,
                       const LowRank& form, int64_t max_rows)
    : plan_(plan),
      f_(form.linear ? kernels::Activation::kIdentity
                     : kernels::Activation::kSilu),
      bias_(plan, name),
      a_(plan.At(name + ".a")),
      b_(plan.At(name + ".b")),
      inputs_(a_.shape[0]),
      rank_(form.rank),
      outputs_(b_.shape[1]) {
  const int64_t bytes = max_rows * rank_ * int64_t{sizeof(float)};
  t_ = plan.saved->Reserve(name + ".t", bytes);
  activated_ = plan.workspace->Reserve("linear.activated", bytes);
  u_ = plan.workspace->Reserve("linear.u", bytes);
}

Matrix ColaLinear::T(int64_t first_row, int64_t rows) const {
  return Matrix(plan_.saved->Floats(t_) + first_row * rank_, rows, rank_);
}

Matrix ColaLinear::Scratch(Workspace::Piece piece, int64_t rows) const {
  return Matrix(plan_.workspace->Floats(piece), rows, rank_);
}

absl::Status ColaLinear::Forward(const Step& step, int64_t first_row,
                                 ConstMatrix x, Matrix y) {
  const ConstMatrix a(step.parameters + a_.offset, inputs_, rank_);
  RETURN_IF_ERROR(
      plan_.backend->Gemm(false, false, 1, x, a, 0, T(first_row, x.rows)));
  return Repeat(step, first_row, x, y);
}

absl::Status ColaLinear::Repeat(const Step& step, int64_t first_row,
                                ConstMatrix x, Matrix y) {
  const Matrix activated = Scratch(activated_, x.rows);
  RETURN_IF_ERROR(plan_.backend->Activate(f_, T(first_row, x.rows), activated));
  const ConstMatrix b(step.parameters + b_.offset, rank_, outputs_);
  return bias_.Product(step, false, activated, b, y);
}

absl::Status ColaLinear::Backward(const Step& step, int64_t first_row,
                                  ConstMatrix x, ConstMatrix grad_y,
                                  Matrix grad_x, bool accumulate) {
  kernels::Backend& backend = *plan_.backend;
  const ConstMatrix a(step.parameters + a_.offset, inputs_, rank_);
  const ConstMatrix b(step.parameters + b_.offset, rank_, outputs_);
  const Matrix activated = Scratch(activated_, x.rows);
  const Matrix u = Scratch(u_, x.rows);
  const ConstMatrix t = T(first_row, x.rows);
  RETURN_IF_ERROR(bias_.Backward(step, grad_y));
  RETURN_IF_ERROR(backend.Activate(f_, t, activated));
  RETURN_IF_ERROR(
      backend.Gemm(true, false, 1, activated, grad_y, 1,
                   Matrix(step.Gradient(b_).data, rank_, outputs_)));
  RETURN_IF_ERROR(backend.Gemm(false, true, 1, grad_y, b, 0, u));
  RETURN_IF_ERROR(backend.ActivateBackward(f_, t, u, u));
  RETURN_IF_ERROR(backend.Gemm(true, false, 1, x, u, 1,
                               Matrix(step.Gradient(a_).data, inputs_, rank_)));
  if (grad_x.data == nullptr) return absl::OkStatus();
  return backend.Gemm(false, true, 1, u, a, accumulate ? 1 : 0, grad_x);
}

}  // namespace comera::trainer
