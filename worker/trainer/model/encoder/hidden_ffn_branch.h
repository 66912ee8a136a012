#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_HIDDEN_FFN_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_HIDDEN_FFN_BRANCH_H_

#include <cstdint>
#include <memory>

#include "kernels/arena.h"
#include "worker/trainer/model/encoder/branch.h"
#include "worker/trainer/model/linear/linear.h"

namespace comera::trainer {

// A feed-forward branch with its hidden layer (rows, ffn) in memory: whole and
// kept, or, where `up` repeats cheaply, in row blocks that Backward computes
// again.
class HiddenFfnBranch : public Branch {
 public:
  HiddenFfnBranch(const Plan& plan, int64_t layer, std::unique_ptr<Linear> up,
                  std::unique_ptr<Linear> down);

  absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                       kernels::Matrix y) override;
  absl::Status Backward(const Step& step, kernels::ConstMatrix x,
                        kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x) override;

 private:
  // Rows [first, first + count) of the hidden layer before and after GELU.
  struct HiddenBlock {
    int64_t first = 0, count = 0;
    kernels::Matrix up, activated;
  };
  HiddenBlock Block(int64_t first, int64_t rows) const;
  absl::Status BlockBackward(const Step& step, const HiddenBlock& block,
                             kernels::ConstMatrix x,
                             kernels::ConstMatrix grad_y,
                             kernels::Matrix grad_x);

  const Plan plan_;
  const int64_t width_;
  const std::unique_ptr<Linear> up_, down_;
  const bool keep_hidden_;
  const int64_t block_rows_;
  kernels::Arena::Piece kept_up_, kept_activated_;
  Workspace::Piece shared_up_, shared_activated_, inner_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_HIDDEN_FFN_BRANCH_H_
