#ifndef COMERA_WORKER_TRAINER_LOOP_GRADIENT_SUM_H_
#define COMERA_WORKER_TRAINER_LOOP_GRADIENT_SUM_H_

#include "absl/status/status.h"
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
  // outlive this.
  GradientSum(collective::Communicator* communicator, kernels::Backend* backend)
      : communicator_(communicator), backend_(backend) {}

  // Replaces plan.reduced() by its sum over the members: for what is enqueued
  // next where the communicator is on the device, else at once.
  absl::Status Sum(ModelPlan& plan);
  // Whether the sums that the device has done are sums. A sum that was given up
  // ends on the device too, and what follows it there runs on gradients of
  // nobody; so ask after waiting for a step, before its figures are used.
  absl::Status Check();

 private:
  collective::Communicator* const communicator_;
  kernels::Backend* const backend_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_GRADIENT_SUM_H_
