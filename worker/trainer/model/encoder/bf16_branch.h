#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_BRANCH_H_

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// A Branch of a residual stream that is bfloat16.
class Bf16Branch {
 public:
  virtual ~Bf16Branch() = default;

  // These are those of Branch; Contract may also round.
  virtual absl::Status Contract(const Step& step) = 0;
  virtual absl::Status BeginBackward() { return absl::OkStatus(); }
  virtual absl::Status FinishBackward(const Step& step) = 0;

  // x and y are (rows, hidden), and not the same.
  virtual absl::Status Forward(const Step& step, kernels::ConstBf16Matrix x,
                               kernels::Bf16Matrix y) = 0;
  // x is what Forward had, up to rounding. grad_x += gradient; grad_x may be
  // grad_y.
  virtual absl::Status Backward(const Step& step, kernels::ConstBf16Matrix x,
                                kernels::ConstBf16Matrix grad_y,
                                kernels::Bf16Matrix grad_x) = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_BRANCH_H_
