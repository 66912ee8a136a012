// A stack of linear layers with ReLU between them.
#include "worker/trainer/model/dlrm/mlp.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/linear/make_linear.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

Mlp::Mlp(const Plan& plan, const std::string& key,
         const std::vector<int64_t>& widths, bool relu_last)
    : plan_(plan), widths_(widths), relu_last_(relu_last) {
  for (size_t i = 0; i < widths.size(); ++i) {
    const std::string layer = absl::StrCat(key, ".", i);
    layers_.push_back(MakeLinear(plan, layer, plan.max_batch, "linear"));
    if (i + 1 == widths.size()) break;
    const int64_t bytes = plan.max_batch * widths[i] * int64_t{sizeof(float)};
    hidden_.push_back(plan.saved->Reserve(layer + ".hidden", bytes));
    grad_[i % 2] =
        plan.workspace->Reserve(absl::StrCat("mlp.grad_hidden.", i % 2), bytes);
  }
}

Matrix Mlp::Hidden(const Step& step, size_t i) const {
  return Matrix(plan_.saved->Floats(hidden_[i]), step.rows(), widths_[i]);
}

absl::Status Mlp::Forward(const Step& step, ConstMatrix x, Matrix y) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Matrix out = i + 1 == layers_.size() ? y : Hidden(step, i);
    RETURN_IF_ERROR(layers_[i]->Contract(step));
    RETURN_IF_ERROR(layers_[i]->Forward(step, 0, x, out));
    if (relu(i))
      RETURN_IF_ERROR(
          plan_.backend->Activate(kernels::Activation::kRelu, out, out));
    x = out;
  }
  return absl::OkStatus();
}

absl::Status Mlp::Backward(const Step& step, ConstMatrix x, ConstMatrix y,
                           Matrix grad_y, Matrix grad_x) {
  for (size_t i = layers_.size(); i-- > 0;) {
    if (relu(i)) {
      RETURN_IF_ERROR(plan_.backend->ActivateBackward(
          kernels::Activation::kRelu, y, grad_y, grad_y));
    }
    const ConstMatrix input = i == 0 ? x : ConstMatrix(Hidden(step, i - 1));
    const Matrix grad_input =
        i == 0 ? grad_x
               : Matrix(plan_.workspace->Floats(grad_[(i - 1) % 2]),
                        step.rows(), widths_[i - 1]);
    RETURN_IF_ERROR(
        layers_[i]->Backward(step, 0, input, grad_y, grad_input, false));
    RETURN_IF_ERROR(layers_[i]->FinishBackward(step));
    y = input;
    grad_y = grad_input;
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
