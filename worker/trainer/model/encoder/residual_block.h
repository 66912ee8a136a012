#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_RESIDUAL_BLOCK_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_RESIDUAL_BLOCK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/branch.h"

namespace comera::trainer {

// y = LayerNorm(x + dropout(branch(x))): half of a transformer block.
//
// The residual stream is one matrix: y takes x's place going forward, and the
// gradient of x that of y going back. The block keeps the normalised rows and
// their deviations, from which the next half computes y again. Where a branch
// ends in rank space, its last product is never in memory.
class ResidualBlock {
 public:
  // Parameters NAME.norm.gamma and NAME.norm.beta; memory is named after `key`;
  // `site` is that of the branch's dropout.
  ResidualBlock(const Plan& plan, const std::string& name,
                const std::string& key, uint32_t site,
                std::unique_ptr<Branch> branch);

  // The branch's (Branch).
  absl::Status Contract(const Step& step) { return branch_->Contract(step); }
  absl::Status BeginBackward() { return branch_->BeginBackward(); }
  absl::Status FinishBackward(const Step& step) {
    return branch_->FinishBackward(step);
  }

  // stream (rows, hidden): x, then y.
  absl::Status Forward(const Step& step, kernels::Matrix stream);
  // grad holds the gradient of y, then that of x. `scratch` (rows, hidden) is
  // overwritten; it may be the memory of x.rows.
  absl::Status Backward(const Step& step, const StreamInput& x,
                        kernels::Matrix grad, kernels::Matrix scratch);
  // The y of the last Forward.
  StreamInput output(const Step& step) const;

 private:
  kernels::DropoutKey Dropout(const Step& step) const;
  // Memory of the normalised rows; also of the output of an ordinary branch.
  kernels::Matrix Normalised(int64_t rows) const;
  kernels::Vector Deviation(int64_t rows) const;
  absl::Status BackwardFromRankSpace(const Step& step, const StreamInput& x,
                                     kernels::Matrix grad);

  const Plan plan_;
  const int64_t hidden_;
  const uint32_t site_;
  const Parameter &gamma_, &beta_;
  const std::unique_ptr<Branch> branch_;
  // The branch without its last product, and the layer of that product; null
  // where the branch does not end in rank space.
  RankSpaceBranch* const rank_space_;
  RankSpaceLinear* const last_;
  SavedMemory::Piece normalised_, deviation_;
  Workspace::Piece grad_branch_ = 0, grad_t_ = 0, tiles_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_RESIDUAL_BLOCK_H_
