#ifndef COMERA_WORKER_TRAINER_OPTIMIZER_MUON_H_
#define COMERA_WORKER_TRAINER_OPTIMIZER_MUON_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/optimizer/adamw.h"
#include "worker/trainer/optimizer/gradient_norm.h"
#include "worker/trainer/optimizer/optimizer.h"
#include "worker/trainer/optimizer/orthogonal_matrices.h"

namespace comera::trainer {

struct MuonOptions {
  // Rates, and the rule for parameters that are no matrices. The rate of cores
  // is that of all matrices: the length of a step in units of the matrix's own
  // scale, the root mean square of its singular values.
  AdamWOptions adamw;
  double momentum = 0.95;
};

// Muon on the matrices of OrthogonalMatrices() (cores and dense weights, but no
// tables and no vocabulary projection), AdamW on everything else.
//
// AdamW moves every entry of a core by the same amount, so that a train of six
// cores moves six times as far as a matrix and mostly along the few directions
// in which its gradient is large. Here all singular directions of an unfolding
// move alike, by the same share of the core's scale whatever its shape, rank
// and place in the train (docs/optimizer.md has the measurements).
//
// The momentum lies in OptimizerState::first_moment; the second moment of
// these matrices stays 0. Clipping applies to AdamW's part only: the length of
// an orthogonalised step does not depend on the gradient's.
class Muon : public Optimizer {
 public:
  // ResourceExhausted: scratch memory does not fit.
  static absl::StatusOr<std::unique_ptr<Muon>> Create(
      const MuonOptions& options, const std::vector<OrthogonalMatrix>& matrices,
      const ParameterLayout& layout, kernels::Backend* backend);

  absl::StatusOr<double> Step(int64_t step, double learning_rate_scale,
                              kernels::Vector parameters,
                              kernels::ConstVector gradients,
                              const OptimizerState& state) override;
  bool on_device() const override { return true; }
  void FillState(int64_t step, double learning_rate_scale,
                 kernels::StepState* state) const override {
    adamw_->FillState(step, learning_rate_scale, state);
  }
  absl::Status Enqueue(const kernels::StepState* step,
                       kernels::Vector parameters,
                       kernels::ConstVector gradients,
                       const OptimizerState& state) override;
  const float* squares() const override { return adamw_->squares(); }

 private:
  Muon(double momentum, int64_t trained_size, kernels::Backend* backend)
      : momentum_(momentum),
        trained_size_(trained_size),
        backend_(backend),
        arena_(backend) {}
  absl::Status StepMatrices(const kernels::OrthogonalRule& rule,
                            absl::Span<const kernels::OrthogonalSegment> all,
                            kernels::Vector parameters,
                            kernels::ConstVector gradients,
                            const OptimizerState& state);

  const double momentum_;
  const int64_t trained_size_;
  kernels::Backend* const backend_;
  kernels::Arena arena_;
  kernels::Arena::Piece workspace_;
  std::unique_ptr<AdamW> adamw_;  // for all other parameters
  std::vector<kernels::OrthogonalSegment> segments_;
  std::vector<kernels::OrthogonalSegment> scaled_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OPTIMIZER_MUON_H_
