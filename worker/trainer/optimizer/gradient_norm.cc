// Sums the squares of a gradient on the device and reads the norm.
#include "worker/trainer/optimizer/gradient_norm.h"

#include <cmath>

#include "common/status_macros.h"

namespace comera::trainer {

absl::StatusOr<std::unique_ptr<GradientNorm>> GradientNorm::Create(
    kernels::Backend* backend) {
  std::unique_ptr<GradientNorm> norm(new GradientNorm(backend));
  norm->norm_ = norm->arena_.Reserve("gradient norm", sizeof(float));
  RETURN_IF_ERROR(norm->arena_.Commit());
  return norm;
}

absl::Status GradientNorm::Enqueue(kernels::ConstVector gradients) {
  return backend_->SumOfSquares(gradients, arena_.Floats(norm_));
}

absl::StatusOr<double> GradientNorm::Measure(kernels::ConstVector gradients) {
  RETURN_IF_ERROR(Enqueue(gradients));
  float squares = 0;
  RETURN_IF_ERROR(
      backend_->CopyToHost(&squares, this->squares(), sizeof(squares)));
  return std::sqrt(static_cast<double>(squares));
}

float ClipFactor(double norm, double clip_norm) {
  if (clip_norm <= 0 || norm <= clip_norm) return 1;
  return static_cast<float>(clip_norm / norm);
}

}  // namespace comera::trainer
