#ifndef COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_RANK_SPACE_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_RANK_SPACE_BRANCH_H_

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/linear/rank_space_linear.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/plan/stream_input.h"

namespace comera::trainer {

// A branch whose last linear layer has factors, stopped before the last
// product: the caller makes y from that layer's T itself, so that y is never in
// memory.
class RankSpaceBranch {
 public:
  // The layer whose T~ and B~ the caller multiplies.
  virtual RankSpaceLinear* last() = 0;

  // Computes T of last().
  virtual absl::Status ForwardToRankSpace(const Step& step,
                                          kernels::ConstMatrix x) = 0;
  // Goes back from the gradient of that T: grad_x += gradient. The caller has
  // added the gradient of B~ to last()->grad_b().
  virtual absl::Status BackwardFromRankSpace(const Step& step,
                                             const StreamInput& x,
                                             kernels::ConstMatrix grad_t,
                                             kernels::Matrix grad_x) = 0;

 protected:
  // The branch is owned as a Branch.
  ~RankSpaceBranch() = default;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_RANK_SPACE_BRANCH_H_
