#ifndef COMERA_WORKER_TRAINER_OPTIMIZER_GALORE_H_
#define COMERA_WORKER_TRAINER_OPTIMIZER_GALORE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/optimizer/adamw.h"
#include "worker/trainer/optimizer/gradient_norm.h"
#include "worker/trainer/optimizer/optimizer.h"

namespace comera::trainer {

struct GaloreOptions {
  AdamWOptions adamw;
  // Steps between two projectors.
  int64_t refresh_every_steps = 200;
  double scale = 0.25;
};

// GaLore (arXiv 2403.03507) on the parameters that the layout projects, Adam on
// the others, both as in the published code (its AdamW):
//   Adam(R) = sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
// with the moments m and v of R, so that epsilon is not corrected; and weight
// decay comes last, W = (1 - rate * decay) * (W - rate * ...).
//
// With G (m, n) the gradient after clipping, m <= n, and P (m, r) its leading
// left singular vectors, taken anew at steps 1, 1 + T, 1 + 2 T, ...:
//   R = P^T G;  N = Adam(R);  W -= rate * scale * P N, and the decay.
// Where m > n, R = G P with the right singular vectors P (n, r), and N P^T
// steps. The moments are those of R and stay when P changes; so the signs of
// singular vectors matter, and are fixed (singular_vectors.h). A weight is
// (inputs, outputs) here and (outputs, inputs) in the published code, so that
// for a square matrix left here is right there.
class Galore : public Optimizer {
 public:
  static absl::StatusOr<std::unique_ptr<Galore>> Create(
      const GaloreOptions& options, const ParameterLayout& layout,
      kernels::Backend* backend);

  absl::StatusOr<double> Step(int64_t step, double learning_rate_scale,
                              kernels::Vector parameters,
                              kernels::ConstVector gradients,
                              const OptimizerState& state) override;
  // FailedPrecondition: adamw.clip_norm is not 0. Without clipping every matrix
  // and every other number is updated from its own gradient alone.
  absl::StatusOr<double> StepBlock(int64_t step, double learning_rate_scale,
                                   const ParameterRange& block,
                                   kernels::Vector parameters,
                                   kernels::ConstVector gradients,
                                   const OptimizerState& state) override;

 private:
  // Neighbours under one rule; their moments lie side by side, too.
  struct WholeRun {
    kernels::AdamWSegment segment;
    int64_t moment_offset = 0;
  };

  Galore(const GaloreOptions& options, const ParameterLayout& layout,
         kernels::Backend* backend)
      : options_(options),
        layout_(layout),
        backend_(backend),
        arena_(backend) {}
  void AddWhole(const Parameter& parameter);
  absl::Status CheckSizes(kernels::ConstVector parameters,
                          const OptimizerState& state) const;
  // Steps on a block; `gradients` are those of the block, of this norm.
  absl::Status Update(int64_t step, double norm, double learning_rate_scale,
                      const ParameterRange& block, float* parameters,
                      const float* gradients, const OptimizerState& state);
  // `gradients` are those of this run or parameter, `parameters` are all.
  absl::Status StepWhole(const WholeRun& run, const kernels::AdamWStep& rule,
                         double learning_rate_scale, float* parameters,
                         const float* gradients, const OptimizerState& state);
  absl::Status StepProjected(const Parameter& parameter,
                             const kernels::AdamWStep& rule,
                             double learning_rate_scale, float* parameters,
                             const float* gradients,
                             const OptimizerState& state);

  const GaloreOptions options_;
  const ParameterLayout layout_;
  kernels::Backend* const backend_;
  std::unique_ptr<GradientNorm> norm_;
  std::vector<WholeRun> whole_;
  kernels::Arena arena_;
  kernels::Arena::Piece projected_ = 0, direction_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OPTIMIZER_GALORE_H_
