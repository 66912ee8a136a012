#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_RESIDUAL_BLOCK_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_RESIDUAL_BLOCK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "worker/trainer/model/encoder/branch.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// y = LayerNorm(x + dropout(branch(x))): half of a transformer block.
//
// The residual stream is one matrix: y takes x's place going forward, and the
// gradient of x that of y going back. Kept are the normalised rows and their
// deviations, from which the next half computes y again. Of a branch that ends
// in rank space the last product is never in memory.
class ResidualBlock {
 public:
  // Parameters NAME.norm.gamma and NAME.norm.beta; memory is named after `key`;
  // `site`: of the branch's dropout.
  ResidualBlock(const Plan& plan, const std::string& name,
                const std::string& key, uint32_t site,
                std::unique_ptr<Branch> branch);

  // stream (rows, hidden): x, then y.
  absl::Status Forward(const Step& step, kernels::Matrix stream);
  // grad: of y, then of x. `scratch` (rows, hidden) is overwritten; it may be
  // the memory of x.rows.
  absl::Status Backward(const Step& step, const StreamInput& x,
                        kernels::Matrix grad, kernels::Matrix scratch);
  // y of the last Forward.
  StreamInput output(const Step& step) const;

 private:
  kernels::DropoutKey Dropout(const Step& step) const;
  // Where a branch that ends in a matrix is put, too.
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
