#ifndef COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_BRANCH_H_

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/rank_space_branch.h"

namespace comera::trainer {

// What a block adds to the residual stream, before its dropout: y = f(x), both
// (rows, hidden). y may be x.
class Branch {
 public:
  virtual ~Branch() = default;

  // The layers' Linear::Contract and FinishBackward, and what else needs no
  // rows: before Forward, and once Backward is done. Only operations that may
  // run together (Backend::BeginTogether).
  virtual absl::Status Contract(const Step& step) = 0;
  virtual absl::Status FinishBackward(const Step& step) = 0;

  virtual absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                               kernels::Matrix y) = 0;
  // Zeroes the sums that Backward adds to; where it was not called, Backward
  // does so. Only operations that may run together.
  virtual absl::Status BeginBackward() { return absl::OkStatus(); }
  // Takes the values of x that Forward had. grad_x += gradient; grad_x may be
  // grad_y. The workspace "block.branch" may be overwritten.
  virtual absl::Status Backward(const Step& step, kernels::ConstMatrix x,
                                kernels::ConstMatrix grad_y,
                                kernels::Matrix grad_x) = 0;

  // False: f is constant. x is not read then, nor is grad_x written.
  virtual bool reads_input() const { return true; }

  // The branch without its last product, or null where it does not end in rank
  // space.
  virtual RankSpaceBranch* rank_space() { return nullptr; }
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_BRANCH_H_
