#ifndef COMERA_WORKER_TRAINER_OPTIMIZER_GRADIENT_NORM_H_
#define COMERA_WORKER_TRAINER_OPTIMIZER_GRADIENT_NORM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/arena.h"
#include "kernels/backend.h"

namespace comera::trainer {

// The global norm of a gradient, read from the device.
class GradientNorm {
 public:
  static absl::StatusOr<std::unique_ptr<GradientNorm>> Create(
      kernels::Backend* backend);

  // Leaves its square in squares(), memory of the backend.
  absl::Status Enqueue(kernels::ConstVector gradients);
  const float* squares() const { return arena_.Floats(norm_); }
  // Waits for the device.
  absl::StatusOr<double> Measure(kernels::ConstVector gradients);

 private:
  explicit GradientNorm(kernels::Backend* backend)
      : backend_(backend), arena_(backend) {}

  kernels::Backend* const backend_;
  kernels::Arena arena_;
  kernels::Arena::Piece norm_ = 0;
};

// What to multiply the gradient by so that its norm is at most clip_norm; 0:
// any norm is right.
float ClipFactor(double norm, double clip_norm);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OPTIMIZER_GRADIENT_NORM_H_
