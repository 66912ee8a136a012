#ifndef COMERA_WORKER_TRAINER_LOOP_DIVERGENCE_GUARD_H_
#define COMERA_WORKER_TRAINER_LOOP_DIVERGENCE_GUARD_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "worker/trainer/loop/step_engine.h"
#include "worker/trainer/loop/step_reporter.h"
#include "worker/trainer/loop/trained_model.h"
#include "worker/trainer/loop/trainer_options.h"
#include "worker/trainer/loop/training_schedule.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// Notices that training has diverged, and does about it what
// training.on_divergence says (docs/learning_rate.md).
//
// A validation loss has diverged if it is not finite, or if, after the warm-up,
// it lies clearly above the baseline (the loss of the best constant prediction)
// although an earlier one lay clearly below it. Two similar cases are not
// divergence: an overfitted model, whose training loss stays below the
// baseline; and a model that the late stage is still pruning towards its target
// size.
//
// Life cycle: Check and Load, of a resumed run; Begin; Judge after every
// validation; KeepIfBest after each return to the end of the early stage;
// GoBack when Judge, or a step, has failed. Not thread-safe.
//
// Guarantees: the decisions and the state are the same on all members.
class DivergenceGuard {
 public:
  // The maximum number of times that a job goes back with lower rates.
  static constexpr int64_t kMostReturns = 3;

  // The objects behind the pointers must outlive this.
  DivergenceGuard(const TrainerOptions* options,
                  const TrainingSchedule* schedule, TrainingProgress* progress,
                  TrainedModel* model, StepEngine* engine,
                  StepReporter* reporter);

  // DataLoss: the saved good state does not have as many values as its ranks
  // imply, or belongs to a stage that this job does not have.
  absl::Status Check(const TrainingState& state) const;
  void Load(std::optional<GoodState> good) { good_ = std::move(good); }
  void Capture(TrainingState* state) const { state->good = good_; }

  // Before the first step: keeps the model as it is if none was loaded.
  absl::Status Begin() {
    return good_.has_value() ? absl::OkStatus() : KeepIfBest();
  }
  // With LOWER_RATE: saves the current model as the state to return to, unless
  // a better one of this stage and target is already saved.
  absl::Status KeepIfBest();

  // Call after each validation, with its figures in the progress. Returns an
  // error of class DIVERGED if training has diverged. A job that has learned
  // nothing so far gets one incident.
  absl::Status Judge();

  // After a DIVERGED or NAN_LOSS: returns to the saved state with half the
  // learning rates, which is an incident; steps keep counting. Returns
  // `failure` unchanged if it is of another class, or if the job cannot go
  // back: on_divergence is not LOWER_RATE, no state is saved for the current
  // target, or it has already gone back kMostReturns times.
  absl::Status GoBack(const absl::Status& failure);

 private:
  bool lowers_rate() const {
    return options_.spec.training().on_divergence() ==
           v1::TrainingSpec::LOWER_RATE;
  }
  // Whether the late stage has yet to bring the model to its size.
  bool Shrinking() const;
  // Whether the lowest loss is comparable with the current model's: in the late
  // stage, whether it was measured during the current target's steps.
  bool LowestCounts() const;
  absl::Status Diverged() const;
  void WarnIfNothingLearned();

  const TrainerOptions& options_;
  const TrainingSchedule& schedule_;
  TrainingProgress& progress_;
  TrainedModel& model_;
  StepEngine& engine_;
  StepReporter& reporter_;
  std::optional<GoodState> good_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_DIVERGENCE_GUARD_H_
