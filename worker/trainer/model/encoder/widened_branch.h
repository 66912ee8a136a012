#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_WIDENED_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_WIDENED_BRANCH_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/encoder/bf16_branch.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/branch.h"

namespace comera::trainer {

// A branch that computes in float32, beside a stream of bfloat16: what it reads
// is widened, what it writes rounded.
class WidenedBranch : public Bf16Branch {
 public:
  WidenedBranch(const Plan& plan, std::unique_ptr<Branch> branch);

  absl::Status Contract(const Step& step) override {
    return branch_->Contract(step);
  }
  absl::Status BeginBackward() override { return branch_->BeginBackward(); }
  absl::Status FinishBackward(const Step& step) override {
    return branch_->FinishBackward(step);
  }
  absl::Status Forward(const Step& step, kernels::ConstBf16Matrix x,
                       kernels::Bf16Matrix y) override;
  absl::Status Backward(const Step& step, kernels::ConstBf16Matrix x,
                        kernels::ConstBf16Matrix grad_y,
                        kernels::Bf16Matrix grad_x) override;

 private:
  kernels::Matrix Floats(Workspace::Piece piece, int64_t rows) const;

  const Plan plan_;
  const std::unique_ptr<Branch> branch_;
  Workspace::Piece x_, y_, grad_;  // y: also the gradient of x
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_WIDENED_BRANCH_H_
