// Adds the bias of a linear layer that has one.
#include "worker/trainer/model/linear/layer_bias.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

absl::Status LayerBias::Add(const Step& step, Matrix y) const {
  if (bias_ == nullptr) return absl::OkStatus();
  return backend_->AddBias(step.Vector(*bias_), y);
}

absl::Status LayerBias::Product(const Step& step, bool transpose_b,
                                ConstMatrix a, ConstMatrix b, Matrix y) const {
  if (bias_ == nullptr) {
    return backend_->Gemm(false, transpose_b, 1, a, b, 0, y);
  }
  return backend_->GemmBias(transpose_b, a, b, step.Vector(*bias_), y);
}

absl::Status LayerBias::Backward(const Step& step, ConstMatrix grad_y) const {
  if (bias_ == nullptr) return absl::OkStatus();
  return backend_->BiasGradient(grad_y, step.Gradient(*bias_));
}

}  // namespace comera::trainer
