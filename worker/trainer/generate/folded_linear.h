#ifndef COMERA_WORKER_TRAINER_GENERATE_FOLDED_LINEAR_H_
#define COMERA_WORKER_TRAINER_GENERATE_FOLDED_LINEAR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/model/weights/layer_factors.h"

namespace comera::trainer {

// A linear layer that only goes forward: Y = f(X A) B + bias, or Y = f(X A) +
// bias where there is no B, with the matrices ready in a backend's memory.
//
// Immutable. The backend, and the views that it was made of, outlive it.
class FoldedLinear {
 public:
  // Y = X op(weight) + bias; a null bias is 0. op transposes if asked.
  FoldedLinear(kernels::Backend* backend, kernels::ConstMatrix weight,
               bool transposed, kernels::ConstVector bias);
  // Copies the factors and the bias to the backend; two factors without an
  // activation that have more numbers than their product are multiplied first.
  // With `two` false `silu` is applied to X A all the same. An empty bias is 0.
  // ResourceExhausted: does not fit.
  static absl::StatusOr<FoldedLinear> Upload(kernels::Backend* backend,
                                             LayerFactors factors,
                                             const std::vector<float>& bias);

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  // Floats of scratch that a row of Forward or AddTo needs.
  int64_t scratch_width() const { return two_ ? rank_ : 0; }
  // Numbers of the matrices, of which each is read once a step.
  int64_t size() const { return a_.rows * a_.cols + b_.rows * b_.cols; }

  // x (rows, inputs), y (rows, outputs).
  absl::Status Forward(kernels::ConstMatrix x, float* scratch,
                       kernels::Matrix y) const;
  // y += what Forward gives; not for a layer with an f and no B (Internal).
  absl::Status AddTo(kernels::ConstMatrix x, float* scratch,
                     kernels::Matrix y) const;

 private:
  absl::Status Run(kernels::ConstMatrix x, float beta, float* scratch,
                   kernels::Matrix y) const;

  kernels::Backend* backend_;
  int64_t inputs_ = 0, outputs_ = 0, rank_ = 0;
  bool two_ = false, silu_ = false, transposed_ = false;
  kernels::ConstMatrix a_, b_;
  kernels::ConstVector bias_;
  // What the three view, unless they view the model's own parameters.
  std::shared_ptr<const kernels::Arena> memory_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_GENERATE_FOLDED_LINEAR_H_
