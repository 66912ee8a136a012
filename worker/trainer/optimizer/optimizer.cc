// Refuses StepBlock and Enqueue for the optimisers that have neither.
#include "worker/trainer/optimizer/optimizer.h"

namespace comera::trainer {

absl::StatusOr<double> Optimizer::StepBlock(int64_t, double,
                                            const ParameterRange&,
                                            kernels::Vector,
                                            kernels::ConstVector,
                                            const OptimizerState&) {
  return absl::FailedPreconditionError(
      "this optimiser needs all gradients at once");
}

absl::Status Optimizer::Enqueue(const kernels::StepState*, kernels::Vector,
                                kernels::ConstVector, const OptimizerState&) {
  return absl::FailedPreconditionError("this optimiser asks the host");
}

}  // namespace comera::trainer
