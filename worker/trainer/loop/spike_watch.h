#ifndef COMERA_WORKER_TRAINER_LOOP_SPIKE_WATCH_H_
#define COMERA_WORKER_TRAINER_LOOP_SPIKE_WATCH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/loop/step_reporter.h"
#include "worker/trainer/loop/trainer_options.h"
#include "worker/trainer/loop/training_schedule.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// Finds the steps whose gradient is so large that they would harm the model
// (training.spike_factor).
//
// A step is a spike if its gradient's norm is more than spike_factor times the
// running mean of those before it. What is judged is the gradient of the loss,
// before the objective adds its own terms. The mean begins after the warm-up,
// and again with every phase and every approach to a target, whose gradients
// have other sizes; the first kLeastNorms of its steps are not judged. A spike
// is no part of it.
//
// A norm that is not finite is no spike: it ends the step as NAN_LOSS.
//
// The objects behind the pointers must outlive this. Not thread-safe.
//
// Guarantees: decisions and state depend on the norms and the progress alone,
// so that they are equal on all members, and in a resumed run.
class SpikeWatch {
 public:
  // The weight that the mean keeps in a step.
  static constexpr double kDecay = 0.98;
  static constexpr int64_t kLeastNorms = 10;
  // So many spikes in a row are no accident.
  static constexpr int64_t kMostInRow = 3;

  SpikeWatch(const TrainerOptions* options, const TrainingSchedule* schedule,
             TrainingProgress* progress, StepReporter* reporter)
      : options_(*options),
        schedule_(*schedule),
        progress_(*progress),
        reporter_(*reporter) {}

  // Whether the job asks for it. If not, Judge is not called.
  bool on() const { return options_.spec.training().spike_factor() > 0; }

  // Whether the step that follows the progress, whose gradient has this norm,
  // must not change the model. Such a step is an incident.
  //
  // DIVERGED: it is the third in a row. With on_divergence: ignore it is left
  // out instead, and the mean begins anew.
  absl::StatusOr<bool> Judge(double norm);

 private:
  absl::StatusOr<bool> Spike(double norm);

  const TrainerOptions& options_;
  const TrainingSchedule& schedule_;
  TrainingProgress& progress_;
  StepReporter& reporter_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_SPIKE_WATCH_H_
