#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_FFN_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_FFN_BRANCH_H_

#include <cstdint>
#include <memory>

#include "kernels/backend.h"
#include "worker/trainer/model/encoder/bf16_branch.h"
#include "worker/trainer/model/linear/bf16_factors.h"
#include "worker/trainer/model/linear/linear.h"

namespace comera::trainer {

// A feed-forward branch y = f(x W_up + b_up) W_down + b_down between two layers
// with factors. The hidden layer is in blocks of rows, which Backward computes
// again.
class Bf16FfnBranch : public Bf16Branch {
 public:
  // Elements of a hidden block, 256 MiB.
  static constexpr int64_t kBlockElements = int64_t{1} << 27;

  // The layers of a branch whose FfnForm is kBf16, made with
  // Plan::rows_elsewhere.
  Bf16FfnBranch(const Plan& plan, int64_t layer, kernels::Activation f,
                std::unique_ptr<Linear> up, std::unique_ptr<Linear> down,
                int64_t block_elements = kBlockElements);

  absl::Status Contract(const Step& step) override;
  absl::Status FinishBackward(const Step& step) override;
  absl::Status Forward(const Step& step, kernels::ConstBf16Matrix x,
                       kernels::Bf16Matrix y) override;
  absl::Status Backward(const Step& step, kernels::ConstBf16Matrix x,
                        kernels::ConstBf16Matrix grad_y,
                        kernels::Bf16Matrix grad_x) override;

 private:
  // Calls f(first, rows) -> Status for all blocks of rows.
  template <typename F>
  absl::Status ForEachBlock(int64_t rows, F f) const;
  // The hidden layer before f and after, or their gradients, of a block.
  kernels::Bf16Matrix Before(int64_t rows) const;
  kernels::Bf16Matrix After(int64_t rows) const;
  // Before and After from the rank vectors of the upper layer.
  absl::Status Hidden(int64_t first, int64_t rows);

  const Plan plan_;
  const int64_t width_;
  const kernels::Activation f_;
  const std::unique_ptr<Linear> up_layer_, down_layer_;
  Bf16Factors up_, down_;
  const int64_t block_rows_;
  Workspace::Piece before_, after_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_FFN_BRANCH_H_
