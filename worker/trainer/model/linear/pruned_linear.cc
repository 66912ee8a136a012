// What is left of a linear layer whose ranks are 0: its bias.
#include "worker/trainer/model/linear/pruned_linear.h"

#include "common/status_macros.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

PrunedLinear::PrunedLinear(const Plan& plan, const std::string& name)
    : backend_(plan.backend), bias_(plan, name) {}

absl::Status PrunedLinear::Forward(const Step& step, int64_t, ConstMatrix,
                                   Matrix y) {
  RETURN_IF_ERROR(backend_->Fill({y.data, y.rows * y.cols}, 0));
  return bias_.Add(step, y);
}

absl::Status PrunedLinear::Repeat(const Step& step, int64_t first_row,
                                  ConstMatrix x, Matrix y) {
  return Forward(step, first_row, x, y);
}

absl::Status PrunedLinear::Backward(const Step& step, int64_t, ConstMatrix,
                                    ConstMatrix grad_y, Matrix grad_x,
                                    bool accumulate) {
  RETURN_IF_ERROR(bias_.Backward(step, grad_y));
  if (grad_x.data == nullptr || accumulate) return absl::OkStatus();
  return backend_->Fill({grad_x.data, grad_x.rows * grad_x.cols}, 0);
}

}  // namespace comera::trainer
