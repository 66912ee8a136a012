#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_BLOCK_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_BLOCK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "worker/trainer/model/encoder/bf16_branch.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// A ResidualBlock whose stream, gradient and normalised rows are bfloat16.
class Bf16Block {
 public:
  // The arguments are those of ResidualBlock.
  Bf16Block(const Plan& plan, const std::string& name, const std::string& key,
            uint32_t site, std::unique_ptr<Bf16Branch> branch);

  absl::Status Contract(const Step& step) { return branch_->Contract(step); }
  absl::Status BeginBackward() { return branch_->BeginBackward(); }
  absl::Status FinishBackward(const Step& step) {
    return branch_->FinishBackward(step);
  }

  // stream (rows, hidden): x, then y.
  absl::Status Forward(const Step& step, kernels::Bf16Matrix stream);
  // grad holds the gradient of y, then that of x.
  absl::Status Backward(const Step& step, kernels::ConstBf16Matrix x,
                        kernels::Bf16Matrix grad);
  // The y of the last Forward, up to the rounding of the normalised rows.
  absl::Status Output(const Step& step, kernels::Bf16Matrix y) const;

 private:
  kernels::DropoutKey Dropout(const Step& step) const;
  // Memory of the normalised rows; also of the branch's output.
  kernels::Bf16Matrix Normalised(int64_t rows) const;
  kernels::Vector Deviation(int64_t rows) const;

  const Plan plan_;
  const uint32_t site_;
  const Parameter &gamma_, &beta_;
  const std::unique_ptr<Bf16Branch> branch_;
  SavedMemory::Piece normalised_, deviation_;
  Workspace::Piece grad_branch_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_BLOCK_H_
