#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_BRANCH_H_

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/linear/tt_linear.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/plan/stream_input.h"

namespace comera::trainer {

// What a block adds to the residual stream, before its dropout: y = f(x), both
// (rows, hidden).
class Branch {
 public:
  virtual ~Branch() = default;

  virtual absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                               kernels::Matrix y) = 0;
  // x as in Forward. grad_x += gradient; it may be grad_y. What lies in the
  // workspace "block.branch" may be overwritten.
  virtual absl::Status Backward(const Step& step, kernels::ConstMatrix x,
                                kernels::ConstMatrix grad_y,
                                kernels::Matrix grad_x) = 0;

  // The last layer of a branch that ends in rank space, which can leave y to
  // who makes it from the layer's T; null: there is none.
  virtual TtLinear* rank_space_end() { return nullptr; }
  // Forward up to that T, and Backward from its gradient; the gradient of B~
  // is in the layer's sums by then.
  virtual absl::Status ForwardToRankSpace(const Step& step,
                                          kernels::ConstMatrix x);
  virtual absl::Status BackwardFromRankSpace(const Step& step,
                                             const StreamInput& x,
                                             kernels::ConstMatrix grad_t,
                                             kernels::Matrix grad_x);
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_BRANCH_H_
