#ifndef COMERA_WORKER_TRAINER_LOOP_RANK_CONTROLLER_H_
#define COMERA_WORKER_TRAINER_LOOP_RANK_CONTROLLER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/trainer/planning/model_plan.h"

namespace comera::trainer {

// Decides when pruned rank entries are removed for good, and removes them.
//
// Compacting rebuilds the plan, so it happens at most every so many steps and
// only if an entry died since. The function the model computes and the
// optimiser's state of every surviving entry stay exactly as they are. Members
// with equal parameters decide equally without talking. Not thread-safe.
class RankController {
 public:
  RankController(int64_t every_steps, ModelFactory factory,
                 kernels::Backend* backend)
      : every_steps_(every_steps),
        factory_(std::move(factory)),
        backend_(backend) {}

  // True if the plan is to be compacted after `step` steps.
  bool Due(int64_t step) const {
    return every_steps_ > 0 && step % every_steps_ == 0;
  }

  // Replaces *plan by the compacted one; false: nothing had died. After an
  // error *plan may be null.
  absl::StatusOr<bool> Compact(std::unique_ptr<ModelPlan>* plan);

 private:
  const int64_t every_steps_;
  const ModelFactory factory_;
  kernels::Backend* const backend_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_RANK_CONTROLLER_H_
