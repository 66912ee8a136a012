// Widens and rounds around a branch in float32.
#include "worker/trainer/model/encoder/widened_branch.h"

#include <utility>

#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::Bf16Matrix;
using kernels::ConstBf16Matrix;
using kernels::Matrix;

WidenedBranch::WidenedBranch(const Plan& plan, std::unique_ptr<Branch> branch)
    : plan_(plan), branch_(std::move(branch)) {
  const int64_t bytes =
      plan.max_rows * plan.config->hidden * int64_t{sizeof(float)};
  x_ = plan.workspace->Reserve("widened.x", bytes);
  y_ = plan.workspace->Reserve("widened.y", bytes);
  grad_ = plan.workspace->Reserve("widened.grad", bytes);
}

Matrix WidenedBranch::Floats(Workspace::Piece piece, int64_t rows) const {
  return Matrix(plan_.workspace->Floats(piece), rows, plan_.config->hidden);
}

absl::Status WidenedBranch::Forward(const Step& step, ConstBf16Matrix x,
                                    Bf16Matrix y) {
  const Matrix in = Floats(x_, x.rows), out = Floats(y_, x.rows);
  RETURN_IF_ERROR(plan_.backend->Widen(x, in));
  RETURN_IF_ERROR(branch_->Forward(step, in, out));
  return plan_.backend->Round(out, y);
}

absl::Status WidenedBranch::Backward(const Step& step, ConstBf16Matrix x,
                                     ConstBf16Matrix grad_y,
                                     Bf16Matrix grad_x) {
  const Matrix in = Floats(x_, x.rows), to = Floats(y_, x.rows);
  const Matrix from = Floats(grad_, x.rows);
  RETURN_IF_ERROR(plan_.backend->Widen(x, in));
  RETURN_IF_ERROR(plan_.backend->Widen(grad_y, from));
  RETURN_IF_ERROR(plan_.backend->Widen(grad_x, to));
  RETURN_IF_ERROR(branch_->Backward(step, in, from, to));
  return plan_.backend->Round(to, grad_x);
}

}  // namespace comera::trainer
