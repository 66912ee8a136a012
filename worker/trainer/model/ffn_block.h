#ifndef COMERA_WORKER_TRAINER_MODEL_FFN_BLOCK_H_
#define COMERA_WORKER_TRAINER_MODEL_FFN_BLOCK_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "worker/trainer/model/linear.h"
#include "worker/trainer/model/plan.h"

namespace comera::trainer {

// y = LayerNorm(x + dropout(down(gelu(up(x))))).
//
// The hidden layer (rows, ffn) is the largest activation. Where `up` is in
// tensor-train form it is never stored whole: rows go through it in blocks that
// stay in cache, and Backward computes each block again from rank space.
class FfnBlock {
 public:
  FfnBlock(const Plan& plan, int64_t layer);

  // x (rows, hidden) must stay until Backward.
  absl::Status Forward(const Step& step, kernels::ConstMatrix x);
  kernels::ConstMatrix output(int64_t rows) const;
  // x as in Forward. grad_x = gradient; not the same memory as grad_y.
  absl::Status Backward(const Step& step, kernels::ConstMatrix x,
                        kernels::ConstMatrix grad_y, kernels::Matrix grad_x);

 private:
  // Rows [first, first + count) of the hidden layer before and after GELU.
  struct HiddenBlock {
    int64_t first = 0, count = 0;
    kernels::Matrix up, activated;
  };
  HiddenBlock Block(int64_t first, int64_t rows) const;
  absl::Status BlockBackward(const Step& step, const HiddenBlock& block,
                             kernels::ConstMatrix x,
                             kernels::ConstMatrix grad_branch,
                             kernels::Matrix grad_x);
  kernels::DropoutKey Dropout(const Step& step) const;

  const Plan plan_;
  const int64_t layer_;
  const int64_t hidden_, width_;
  std::unique_ptr<Linear> up_, down_;
  bool keep_hidden_ = false;
  int64_t block_rows_ = 0;
  const Parameter &gamma_, &beta_;
  kernels::Arena::Piece kept_up_, kept_activated_;
  kernels::Arena::Piece normalised_, deviation_, output_;
  Workspace::Piece shared_up_, shared_activated_, branch_, inner_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_FFN_BLOCK_H_
