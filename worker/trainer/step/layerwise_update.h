#ifndef COMERA_WORKER_TRAINER_STEP_LAYERWISE_UPDATE_H_
#define COMERA_WORKER_TRAINER_STEP_LAYERWISE_UPDATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/trainer/model/plan/parameter_layout.h"
#include "worker/trainer/optimizer/optimizer.h"
#include "worker/trainer/planning/model_plan.h"

namespace comera::trainer {

// The backward pass of a step that updates each block of parameters as soon as
// its gradients are complete (arXiv 2403.03507, section 4.4), so that the
// gradients of one block at a time are in memory.
//
// Life cycle: one object for one step, and Run once, after the model's Forward.
// The objects behind the pointers must outlive it. Not thread-safe.
//
// Guarantees: the parameters become those that a whole backward pass and one
// step of the optimiser would give.
class LayerwiseUpdate {
 public:
  struct Options {
    // The number of the training step, from 1.
    int64_t step = 1;
    double learning_rate_scale = 1;
    // Makes the gradient of the sum of the losses that of their mean.
    double gradient_scale = 1;
  };

  LayerwiseUpdate(const Options& options, ModelPlan* plan, Optimizer* optimizer,
                  kernels::Backend* backend)
      : options_(options),
        plan_(*plan),
        optimizer_(*optimizer),
        backend_(*backend) {}

  // Returns the norm of all gradients. If it is not finite, neither the block
  // in which that was found nor any later one was updated, but the blocks
  // before it were.
  // FailedPrecondition: the model or the optimiser cannot do it in blocks.
  absl::StatusOr<double> Run();

 private:
  absl::Status Update(const ParameterRange& block, kernels::Vector gradients);

  const Options options_;
  ModelPlan& plan_;
  Optimizer& optimizer_;
  kernels::Backend& backend_;
  // The sum of the squares of all gradients so far.
  double squares_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STEP_LAYERWISE_UPDATE_H_
