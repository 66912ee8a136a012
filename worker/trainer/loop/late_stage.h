#ifndef COMERA_WORKER_TRAINER_LOOP_LATE_STAGE_H_
#define COMERA_WORKER_TRAINER_LOOP_LATE_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/loop/model_validation.h"
#include "worker/trainer/loop/step_engine.h"
#include "worker/trainer/loop/step_reporter.h"
#include "worker/trainer/loop/trained_model.h"
#include "worker/trainer/loop/trainer_options.h"
#include "worker/trainer/loop/training_schedule.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// The late stage: one approach per target, each from the end of the early
// stage, and the model that came nearest to the target (docs/late_stage.md).
//
// Life cycle: Enter, a validation (which calls Judge), KeepBranchPoint; then
// Judge after every validation and EndTargetsIfDue after every step. A resumed
// run begins with Check and Load instead. Not thread-safe.
class LateStage {
 public:
  // The objects behind the pointers must outlive this.
  LateStage(const TrainerOptions* options, const TrainingSchedule* schedule,
            TrainingProgress* progress, TrainedModel* model, StepEngine* engine,
            StepReporter* reporter);

  // DataLoss: the state's stage and targets are not those of the job, or its
  // nearest model or branch point has not as many numbers as its ranks say.
  // They are uploaded long after, where nothing checks them.
  absl::Status Check(const TrainingState& state) const;
  void Load(std::optional<NearestModel> nearest,
            std::optional<BranchPoint> branch);
  void Capture(TrainingState* state) const;

  // Rewrites the model for the late stage, and begins the first approach. All
  // rank entries must be alive with the pareto objective.
  absl::Status Enter();
  // Keeps the model, just validated, for the approaches after the first.
  absl::Status KeepBranchPoint();
  // After a validation of the model, which has this size: decides whether the
  // target is met, and keeps the model if no other came nearer. Where the
  // validation was of a sample and meets the target, the whole set decides.
  absl::Status Judge(int64_t size);
  // Ends every approach that has met its target or spent its steps: exports the
  // nearest model and returns to the branch point. False: none has.
  absl::StatusOr<bool> EndTargetsIfDue();

  // The model that came nearest to the last target, on member 0.
  const std::optional<NearestModel>& nearest() const { return nearest_; }
  // Puts that model in the place of the one in training, on all members and
  // without the optimiser's state, so that it can be evaluated. No step follows
  // but from another state.
  absl::StatusOr<NearestModel> RestoreNearest();

 private:
  absl::Status CheckFits(const NearestModel& nearest) const;
  void BeginApproach();
  absl::Status EndApproach();
  // Whether the model in training, which has these figures of a sample, meets
  // the quality that is asked for. `decisive` becomes the figures that decided.
  absl::StatusOr<bool> ConfirmQuality(const ValidationResult& validation,
                                      ValidationResult* decisive);
  // Gives the nearest model the figures of the whole validation set, and with
  // them the last word on whether the target is met.
  absl::Status MeasureNearest();
  absl::Status ReturnToBranchPoint();
  absl::Status ExportTarget(size_t index);
  // Whether the model meets the target in both its size and its quality.
  bool Meets(const NearestModel& model) const;
  bool IsNearer(const NearestModel& model, const NearestModel& than) const;
  // How far a model is from the target, by what the late stage minimises.
  double Distance(const ValidationResult& validation, int64_t size) const;

  const TrainerOptions& options_;
  const TrainingSchedule& schedule_;
  TrainingProgress& progress_;
  TrainedModel& model_;
  StepEngine& engine_;
  StepReporter& reporter_;
  ModelValidation validation_;
  std::optional<NearestModel> nearest_;  // on member 0 only
  std::optional<BranchPoint> branch_;    // while other targets are to come
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_LATE_STAGE_H_
