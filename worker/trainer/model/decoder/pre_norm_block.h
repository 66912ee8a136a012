#ifndef COMERA_WORKER_TRAINER_MODEL_DECODER_PRE_NORM_BLOCK_H_
#define COMERA_WORKER_TRAINER_MODEL_DECODER_PRE_NORM_BLOCK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "worker/trainer/model/linear/row_norm.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/branch.h"

namespace comera::trainer {

// x += dropout(branch(norm(x))): half of a decoder's block.
//
// Going back, only the normalised rows and their deviations are needed of x,
// from which the branch's input is computed again.
class PreNormBlock {
 public:
  // The norm has the parameters NAME.norm.gamma and, where there is one,
  // NAME.norm.beta; memory is named after `key`; `site` is that of the branch's
  // dropout. A null branch adds nothing.
  PreNormBlock(const Plan& plan, const std::string& name,
               const std::string& key, uint32_t site,
               std::unique_ptr<Branch> branch);

  // The branch's (Branch).
  absl::Status Contract(const Step& step);
  absl::Status FinishBackward(const Step& step);

  // stream (rows, hidden): x before and after.
  absl::Status Forward(const Step& step, kernels::Matrix stream);
  // grad (rows, hidden): the gradient of x after, then before. `scratch` (rows,
  // hidden) is overwritten.
  absl::Status Backward(const Step& step, kernels::Matrix grad,
                        kernels::Matrix scratch);

 private:
  kernels::DropoutKey Dropout(const Step& step) const;
  kernels::Matrix Normalised(int64_t rows) const;
  kernels::Vector Deviation(int64_t rows) const;
  // Going forward the branch's input and output, going back its input's
  // gradient.
  kernels::Matrix BranchRows(int64_t rows) const;

  const Plan plan_;
  const int64_t hidden_;
  const uint32_t site_;
  const RowNorm norm_;
  const std::unique_ptr<Branch> branch_;
  SavedMemory::Piece normalised_ = 0, deviation_ = 0;
  Workspace::Piece branch_rows_ = 0, grad_branch_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_DECODER_PRE_NORM_BLOCK_H_
