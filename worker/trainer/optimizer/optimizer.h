#ifndef COMERA_WORKER_TRAINER_OPTIMIZER_OPTIMIZER_H_
#define COMERA_WORKER_TRAINER_OPTIMIZER_OPTIMIZER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::trainer {

// What an optimiser keeps between steps, zero before the first. The buffers are
// the caller's, so that they can be compacted and saved.
struct OptimizerState {
  kernels::Vector first_moment;   // layout.moments_size()
  kernels::Vector second_moment;  // likewise
  kernels::Vector projectors;     // layout.projectors_size()
};

inline int64_t OptimizerStateBytes(const ParameterLayout& layout) {
  return (2 * layout.moments_size() + layout.projectors_size()) *
         int64_t{sizeof(float)};
}

// Turns gradients into the next parameters.
//
// Life cycle: bound to one layout when made (make_optimizer.h); after a change
// of ranks, make a new one. Everything that a later step depends on is in the
// parameters and the state. Not thread-safe.
//
// Guarantees: the result depends on the arguments only, so that members
// with equal parameters and gradients stay equal without communicating.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Step number `step` (from 1) on all parameters (layout.size()) from the
  // gradients of those that are trained (layout.trained_size()). Returns the
  // gradients' norm before clipping; if that is not finite nothing was changed.
  // InvalidArgument: a buffer has another size.
  virtual absl::StatusOr<double> Step(int64_t step, double learning_rate_scale,
                                      kernels::Vector parameters,
                                      kernels::ConstVector gradients,
                                      const OptimizerState& state) = 0;

  // Step on the parameters of one block alone, from their gradients, which are
  // `gradients`; once every block has had its own, the result is that of Step.
  // Returns the norm of these gradients; if it is not finite nothing was
  // changed. FailedPrecondition: a step of this optimiser needs all gradients
  // at once. InvalidArgument: as Step, or the block cuts a parameter.
  virtual absl::StatusOr<double> StepBlock(int64_t step,
                                           double learning_rate_scale,
                                           const ParameterRange& block,
                                           kernels::Vector parameters,
                                           kernels::ConstVector gradients,
                                           const OptimizerState& state);

  // Whether Enqueue can take Step's place: the host decides nothing.
  virtual bool on_device() const { return false; }
  // Step in parts, so that the host does not wait: FillState puts what differs
  // from step to step into a StepState, which lies in memory of the backend
  // when Enqueue's operations run; they leave the square of the norm in
  // squares(), memory of the backend that stays the same. FailedPrecondition:
  // not on_device.
  virtual void FillState(int64_t /*step*/, double /*learning_rate_scale*/,
                         kernels::StepState*) const {}
  virtual absl::Status Enqueue(const kernels::StepState* step,
                               kernels::Vector parameters,
                               kernels::ConstVector gradients,
                               const OptimizerState& state);
  virtual const float* squares() const { return nullptr; }
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OPTIMIZER_OPTIMIZER_H_
