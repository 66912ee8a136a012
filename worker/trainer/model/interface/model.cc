// What every model does alike.
#include "worker/trainer/model/interface/model.h"

#include "common/status_macros.h"

namespace comera::trainer {

absl::Status Model::Forward(const Batch& batch, const float* parameters,
                            bool train, const kernels::StepState* state) {
  RETURN_IF_ERROR(SetBatch(batch, train, state));
  return Forward(parameters);
}

std::vector<ParameterRange> Model::GradientBuckets(int64_t) const {
  return {{0, layout().trained_size()}};
}

absl::Status Model::BackwardBucket(const float* parameters, float* gradients,
                                   const ParameterRange&) {
  return Backward(parameters, gradients);
}

absl::Status Model::BackwardByBlock(const float*, kernels::Vector,
                                    const BlockDone&) {
  return absl::FailedPreconditionError("this model has no blocks of gradients");
}

}  // namespace comera::trainer
