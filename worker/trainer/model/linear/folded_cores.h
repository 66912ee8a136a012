#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_FOLDED_CORES_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_FOLDED_CORES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// The cores H_i = G_i D_i of one tensorised layer, and the way back from their
// gradients to those of G_i and d_i. The last core has no D and is used where
// it lies among the parameters.
class FoldedCores {
 public:
  enum class Memory {
    kOwn,         // the H_i last through the step
    kContraction  // in StepMemory::contraction: FoldAgain before a later use
  };

  // Pieces of Plan::sums are named after `scratch`.
  FoldedCores(const Plan& plan, const std::string& layer_name,
              const std::string& scratch, Memory memory = Memory::kOwn);

  absl::Status Fold(const Step& step);
  // Folds again if another layer may have overwritten the memory since.
  absl::Status FoldAgain(const Step& step);
  // The H_i of the last Fold, which must have seen the same parameters.
  absl::Span<const float* const> cores() const { return cores_; }

  // Scratch for the gradients of all cores, in shared memory.
  absl::Span<float* const> grad_cores();
  // Adds what lies there to step.gradients.
  absl::Status Backward(const Step& step);

 private:
  struct Core {
    const Parameter* g;
    const Parameter* d;  // null: the last
    int64_t offset;      // place of H and of its gradient
    int64_t rows() const { return d == nullptr ? 1 : g->size / d->size; }
    int64_t cols() const { return d == nullptr ? g->size : d->size; }
  };

  float* folded() const;
  absl::Status FoldEach(const Step& step);
  absl::Status BackwardOfEach(const Step& step);

  const Plan plan_;
  const Memory memory_;
  std::vector<Core> parts_;
  std::vector<const float*> cores_;
  std::vector<float*> grad_cores_;
  kernels::MemoryPlan::Piece folded_;
  Workspace::Piece grad_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_FOLDED_CORES_H_
