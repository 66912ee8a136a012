#include "worker/trainer/model/encoder/branch.h"

namespace comera::trainer {

absl::Status Branch::ForwardToRankSpace(const Step&, kernels::ConstMatrix) {
  return absl::InternalError("the branch does not end in rank space");
}

absl::Status Branch::BackwardFromRankSpace(const Step&, const StreamInput&,
                                           kernels::ConstMatrix,
                                           kernels::Matrix) {
  return absl::InternalError("the branch does not end in rank space");
}

}  // namespace comera::trainer
