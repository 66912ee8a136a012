#ifndef COMERA_WORKER_TRAINER_STEP_GRADIENT_SUM_H_
#define COMERA_WORKER_TRAINER_STEP_GRADIENT_SUM_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "worker/collective/communicator.h"
#include "worker/trainer/model/plan/parameter_layout.h"
#include "worker/trainer/planning/model_plan.h"
#include "worker/trainer/step/background_calls.h"

namespace comera::trainer {

// The sum of a plan's gradients and their tail over the members of a gang, by
// whatever way leads from the backend's memory to the communicator: at once, or
// bucket by bucket while the rest of the backward pass is computed.
//
// Life cycle of a sum: Start for each bucket (Model::GradientBuckets), then
// Finish. Not thread-safe. Between the two a thread of this object calls a
// communicator of the host, and nobody else may. Destruction waits for the sum
// that is under way.
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

  // Whether the sum of one bucket can be on its way while the backend computes
  // the next. If not, or in a gang of one, all gradients are one bucket.
  bool overlaps() const;

  // Begins to replace `bucket` of plan.gradients() by its sum over the members,
  // and with the bucket that reaches their end the tail. What the backend
  // enqueues next must leave both alone until Finish.
  absl::Status Start(ModelPlan& plan, const ParameterRange& bucket);
  // Waits until the sums are there. Where the communicator is on the device,
  // only what is enqueued next waits.
  absl::Status Finish();
  // Whether the sums that the device has done are sums. A sum that was given up
  // ends on the device too, and what follows it there runs on gradients of
  // nobody; so ask after waiting for a step, before its figures are used.
  absl::Status Check();

 private:
  bool alone() const {
    return communicator_ == nullptr || communicator_->world_size() == 1;
  }
  // The sum of values in memory of the host.
  absl::Status SumOnHost(absl::Span<float> values, size_t exact_tail);

  collective::Communicator* const communicator_;
  kernels::Backend* const backend_;
  const bool compress_;
  // Sums what Start was given, one bucket after the other; made by the first
  // Start of a part of the gradients.
  std::unique_ptr<BackgroundCalls> calls_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STEP_GRADIENT_SUM_H_
