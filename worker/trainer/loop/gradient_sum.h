#ifndef COMERA_WORKER_TRAINER_LOOP_GRADIENT_SUM_H_
#define COMERA_WORKER_TRAINER_LOOP_GRADIENT_SUM_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "worker/collective/communicator.h"
#include "worker/trainer/planning/model_plan.h"

namespace comera::trainer {

// The sum of a plan's gradients and their tail over the members of a gang, by
// whatever way leads from the backend's memory to the communicator. Not
// thread-safe.
//
// Errors are those of the communicator, with the class COLLECTIVE_HANG, and
// those of the backend.
class GradientSum {
 public:
  // `communicator` may be null: a gang of one has nothing to sum. Both must
  // outlive this. `compress`: gradients travel as bfloat16, their tail as
  // float32; a communicator on the device was told so when it was made.
  GradientSum(collective::Communicator* communicator, kernels::Backend* backend,
              bool compress = false)
      : communicator_(communicator), backend_(backend), compress_(compress) {}

  // Replaces plan.reduced() by its sum over the members: for what is enqueued
  // next where the communicator is on the device, else at once.
  absl::Status Sum(ModelPlan& plan);
  // Whether the sums that the device has done are sums. A sum that was given up
  // ends on the device too, and what follows it there runs on gradients of
  // nobody; so ask after waiting for a step, before its figures are used.
  absl::Status Check();

 private:
  // The sum of values in memory of the host.
  absl::Status SumOnHost(absl::Span<float> values);

  collective::Communicator* const communicator_;
  kernels::Backend* const backend_;
  const bool compress_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_GRADIENT_SUM_H_
