#ifndef COMERA_WORKER_TRAINER_LOOP_TRAINER_H_
#define COMERA_WORKER_TRAINER_LOOP_TRAINER_H_

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/progress.pb.h"
#include "worker/trainer/loop/divergence_guard.h"
#include "worker/trainer/loop/energy_account.h"
#include "worker/trainer/loop/late_stage.h"
#include "worker/trainer/loop/model_validation.h"
#include "worker/trainer/loop/state_keeper.h"
#include "worker/trainer/loop/step_engine.h"
#include "worker/trainer/loop/step_reporter.h"
#include "worker/trainer/loop/trained_model.h"
#include "worker/trainer/loop/trainer_options.h"
#include "worker/trainer/loop/training_schedule.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/state/training_state.h"
#include "worker/trainer/step/step_runner.h"

namespace comera::trainer {

// How Run ended, unless with an error.
struct RunEnd {
  // The run was asked to stop, and a checkpoint was saved. There is no result,
  // unless member 0 was to leave its best model.
  bool stopped = false;
  bool left_model = false;
  v1::TrainingResult result;
};

// One member of a training job: the loop over the steps, and what follows each:
// compaction, validation, reports, targets, checkpoints.
//
// Life cycle: Create loads or initialises the state and shares it between the
// members (a collective); Run trains to the end, once. Not thread-safe.
//
// Guarantees: every number is a function of the spec, the data and the seed. N
// members do what one member with the same global batch does, up to rounding; a
// resumed run repeats the uninterrupted one bit by bit. All members take the
// same decisions from the same all-reduced numbers, without further talk.
//
// Errors carry their class (failure.h): NAN_LOSS and DIVERGED
// (divergence_guard.h, spike_watch.h) name the step; others come from the data,
// the backend, the communicator and the exporter. A checkpoint that cannot be
// written is an incident, and training goes on; so is a damaged one that is
// passed over. CHECKPOINT_DAMAGED: there are some, and none is good. DATA: the
// samples are not those that the checkpoint was trained on, or those of the
// other members.
class Trainer {
 public:
  // InvalidArgument: spec, or initial weights that do not fit it. DataLoss:
  // start_from's checkpoint is damaged.
  // FailedPrecondition: the checkpoint belongs to another spec. A checkpoint
  // goes before initial weights, whose file is then not read.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      TrainerOptions options);

  // `stop`, once true on any member, ends all members after the same step.
  absl::StatusOr<RunEnd> Run(const std::atomic<bool>& stop);

  const TrainingProgress& progress() const { return progress_; }
  const StepRunner::Counters& graph_counters() const {
    return engine_.graph_counters();
  }

 private:
  Trainer(TrainerOptions options, const ModelConfig& initial_config);

  absl::Status Start();
  absl::StatusOr<TrainingState> LoadOrInitialise();
  absl::Status Load(TrainingState state);

  absl::StatusOr<RunEnd> Train(const std::atomic<bool>& stop);
  // Does what follows a step, as far as it is due.
  absl::Status FollowStep();
  // Goes on after training has diverged, or returns `failure`.
  absl::Status Recover(const absl::Status& failure);
  // Whether something that follows the step depends on what it gave.
  bool FiguresNeeded() const;
  // Whether a member was asked to stop, and all members know it by now.
  bool StopDue() const;
  absl::Status SaveSnapshotIfDue();
  absl::Status Compact();
  bool ValidationDue() const;
  absl::Status RunValidation();
  // True: the late stage began just now, and the model was validated.
  absl::StatusOr<bool> EnterLateStageIfDue();
  // Ends a job with early.only: hands the state out as a late stage would find
  // it, then validates.
  absl::Status EndEarlyStage();
  // Evaluates the final model on the whole validation set, where the late stage
  // has not done so, and on the test set.
  absl::Status EvaluateFinalModel(std::optional<ValidationResult>* test);
  absl::StatusOr<RunEnd> Finish();
  // Saves a checkpoint and, if that is asked for and a model was validated,
  // exports the best one.
  absl::StatusOr<RunEnd> EndStopped();
  // Whether this member is to end soon and to leave its best model.
  bool FinishAsked();
  // The model to export, not compacted: the nearest one, else that in training.
  struct Exported {
    ModelConfig config;
    std::vector<float> parameters;
  };
  absl::StatusOr<Exported> ModelToExport();
  // Reports the figures of a step, and the energy that was used until now.
  void ReportMetrics(const StepFigures& figures, bool validated);
  void LogGraphs() const;

  TrainerOptions options_;
  const TrainingSchedule schedule_;
  TrainingProgress progress_;
  TrainedModel model_;
  StepReporter reporter_;
  StepEngine engine_;
  LateStage late_stage_;
  DivergenceGuard guard_;
  EnergyAccount energy_;
  ModelValidation validation_;
  StateKeeper keeper_;
  // Whether the figures of the last step are known, to all members.
  bool figures_known_ = true;
  bool finish_asked_ = false;
  absl::Time next_finish_check_ = absl::InfinitePast();
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_TRAINER_H_
