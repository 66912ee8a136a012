// Refuses Enqueue for optimisers that decide on the host.
#include "worker/trainer/optimizer/optimizer.h"

namespace comera::trainer {

absl::Status Optimizer::Enqueue(const kernels::StepState*, kernels::Vector,
                                kernels::ConstVector, const OptimizerState&) {
  return absl::FailedPreconditionError("this optimiser asks the host");
}

}  // namespace comera::trainer
