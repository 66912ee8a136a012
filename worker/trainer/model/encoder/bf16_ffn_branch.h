#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_FFN_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_FFN_BRANCH_H_

#include <memory>

#include "kernels/backend.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/linear/rank_space_linear.h"
#include "worker/trainer/model/transformer/branch.h"

namespace comera::trainer {

// A feed-forward branch y = f(x W_up + b_up) W_down + b_down between two layers
// with factors, whose hidden layer is in memory as bfloat16: all products that
// read or write it take half the traffic. The gradients of the factors, and
// what enters and leaves the branch, are float32. The hidden layer is computed
// again in the backward pass.
class Bf16FfnBranch : public Branch {
 public:
  // Whether the backend and the layers' ranks allow it.
  static bool Allowed(const Plan& plan, Linear& up, Linear& down);

  Bf16FfnBranch(const Plan& plan, int64_t layer, kernels::Activation f,
                std::unique_ptr<Linear> up, std::unique_ptr<Linear> down);

  absl::Status Contract(const Step& step) override;
  absl::Status FinishBackward(const Step& step) override;
  absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                       kernels::Matrix y) override;
  absl::Status Backward(const Step& step, kernels::ConstMatrix x,
                        kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x) override;

 private:
  // Rows [first, first + count) of the step.
  struct Rows {
    int64_t first, count;
  };
  // Calls f(Rows) -> Status for all blocks of rows.
  template <typename F>
  absl::Status ForEachBlock(int64_t rows, F f) const;

  // The hidden layer before f and after, or their gradients.
  kernels::Bf16Matrix Before(Rows rows) const;
  kernels::Bf16Matrix After(Rows rows) const;
  // T~ and B~ of the upper layer and A of the lower one, rounded.
  kernels::Bf16Matrix T(Rows rows) const;
  kernels::Bf16Matrix B() const;
  kernels::Bf16Matrix A() const;

  absl::Status ForwardBlock(Rows rows, kernels::ConstMatrix x,
                            kernels::Matrix y);
  absl::Status BackwardBlock(Rows rows, kernels::ConstMatrix x,
                             kernels::ConstMatrix grad_y,
                             kernels::Matrix grad_x);
  // Before and After, from T and B.
  absl::Status Hidden(Rows rows);

  const Plan plan_;
  const int64_t width_;
  const kernels::Activation f_;
  const std::unique_ptr<Linear> up_layer_, down_layer_;
  RankSpaceLinear &up_, &down_;
  const int64_t block_rows_;
  const int64_t padded_;  // columns of T~
  SavedMemory::Piece t_, b_, a_;
  Workspace::Piece before_, after_, u_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_FFN_BRANCH_H_
