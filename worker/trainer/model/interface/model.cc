// What every model does alike.
#include "worker/trainer/model/interface/model.h"

#include "common/status_macros.h"

namespace comera::trainer {

absl::Status Model::Forward(const Batch& batch, const float* parameters,
                            bool train, const kernels::StepState* state) {
  RETURN_IF_ERROR(SetBatch(batch, train, state));
  return Forward(parameters);
}

absl::Status Model::BackwardByBlock(const float*, kernels::Vector,
                                    const BlockDone&) {
  return absl::FailedPreconditionError("this model has no blocks of gradients");
}

}  // namespace comera::trainer
