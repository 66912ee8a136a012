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
class FfnBlock {
 public:
  FfnBlock(const Plan& plan, int64_t layer);

  // x (rows, hidden) must stay until Backward.
  absl::Status Forward(const Step& step, kernels::ConstMatrix x);
  kernels::ConstMatrix output(int64_t rows) const;
  // grad_x = gradient; not the same memory as grad_y.
  absl::Status Backward(const Step& step, kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x);

 private:
  kernels::DropoutKey Dropout(const Step& step) const;

  const Plan plan_;
  const int64_t layer_;
  const int64_t hidden_, width_;
  std::unique_ptr<Linear> up_, down_;
  const Parameter &gamma_, &beta_;
  kernels::Arena::Piece up_output_, activated_;
  kernels::Arena::Piece normalised_, deviation_, output_;
  Workspace::Piece branch_, inner_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_FFN_BLOCK_H_
