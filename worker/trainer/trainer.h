#ifndef COMERA_WORKER_TRAINER_TRAINER_H_
#define COMERA_WORKER_TRAINER_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "common/clock.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/collective/communicator.h"
#include "worker/trainer/checkpoint.h"
#include "worker/trainer/data/training_data.h"
#include "worker/trainer/event_writer.h"
#include "worker/trainer/heartbeat.h"
#include "worker/trainer/model_plan.h"
#include "worker/trainer/objective/objective.h"
#include "worker/trainer/optimizer/adamw.h"
#include "worker/trainer/rank_controller.h"
#include "worker/trainer/training_state.h"

namespace comera::trainer {

struct TrainerOptions {
  // Valid (job_validation) and with its defaults filled in (job_defaults).
  v1::JobSpec spec;
  // Continue from the newest good checkpoint, if there is one.
  bool resume = false;

  // All pointers must outlive the trainer.
  kernels::Backend* backend = nullptr;
  const TrainingData* data = nullptr;
  // Null: one rank.
  collective::Communicator* communicator = nullptr;
  // Rank 0 only: where checkpoints lie. Null: none are written.
  std::unique_ptr<CheckpointFiles> checkpoint_files;

  // Takes everything but heartbeats; called on rank 0 only.
  EventSink events = [](const v1::TrainerEvent&) {};
  // Things to know that are no event, e.g. a damaged checkpoint.
  std::function<void(const std::string&)> log = [](const std::string&) {};
  // For the heartbeat; may be null.
  Activity* activity = nullptr;
  // Called on rank 0 with the final model, compacted, before the result is
  // told. Empty: nothing is exported.
  std::function<absl::Status(const ModelConfig& config,
                             const std::vector<float>& parameters,
                             const v1::TrainingResult& result)>
      export_model;

  ModelFactory model_factory = Model::Create;
  Clock* clock = Clock::Real();
};

// How Run ended, unless with an error.
struct RunEnd {
  // Asked to stop: a checkpoint was written and there is no result.
  bool stopped = false;
  v1::TrainingResult result;
};

// One rank of a training job: steps, stages, compaction, validation,
// checkpoints, and what is told about them.
//
// Life cycle: Create loads or initialises the state and shares it between the
// ranks (a collective); Run trains to the end, once. Not thread-safe.
//
// Guarantees: every number is a function of the spec, the data and the seed. N
// ranks do what one rank with the same global batch does, up to rounding; a
// resumed run repeats the uninterrupted one bit by bit. All ranks take the same
// decisions from the same all-reduced numbers, without further talk.
//
// Errors carry their class (failure.h): NAN_LOSS names the step; others come
// from the data, the backend, the communicator and the exporter. A checkpoint
// that cannot be written is logged and training goes on.
class Trainer {
 public:
  // InvalidArgument: spec. FailedPrecondition: the checkpoint belongs to
  // another spec.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      TrainerOptions options);

  // `stop`, once true on any rank, ends all ranks after the same step.
  absl::StatusOr<RunEnd> Run(const std::atomic<bool>& stop);

  const TrainingProgress& progress() const { return progress_; }
  int64_t total_steps() const;

 private:
  // What the last step gave, for reports.
  struct LastStep {
    double loss = 0;
    ObjectiveStep objective;
    double learning_rate_scale = 1;
    double gradient_norm = 0;
    bool stop = false;
  };

  explicit Trainer(TrainerOptions options);

  // --- state (trainer_state.cc)
  absl::Status Start();
  absl::StatusOr<TrainingState> LoadOrInitialise();
  absl::Status Share(TrainingState& state);
  absl::Status Adopt(TrainingState state);
  absl::StatusOr<TrainingState> Capture();
  // Objective and optimiser for the plan as it is.
  absl::Status BindPlan();
  void SaveCheckpoint();

  // --- steps (trainer.cc)
  absl::StatusOr<RunEnd> Train(const std::atomic<bool>& stop);
  absl::Status TrainStep(bool stop);
  absl::Status ReduceGradients(const LossTotals& totals, bool stop,
                               LossTotals* global);
  absl::Status AfterStep();
  absl::Status Compact();
  absl::Status EnterLateStageIfDue();
  bool ValidationDue() const;
  absl::Status RunValidation();
  absl::Status KeepIfNearest(int64_t size);
  bool Finished() const;
  absl::StatusOr<RunEnd> Finish();
  absl::Status Export(const ModelConfig& config,
                      const std::vector<float>& parameters,
                      const v1::TrainingResult& result);

  // --- reports (trainer_reports.cc)
  void Emit(v1::TrainerEvent event);
  void ReportRunInfo();
  absl::Status ReportRanks();
  void ReportMetrics(bool validated);
  v1::TrainingResult MakeResult() const;

  int rank() const;
  int world_size() const;
  bool has_late_stage() const { return options_.spec.objective().has_late(); }
  // Smoothed training loss, corrected to what validation would say.
  double EstimatedValidationLoss() const;

  TrainerOptions options_;
  const std::string fingerprint_;
  std::unique_ptr<CheckpointStore> checkpoints_;
  ModelConfig initial_config_;
  std::unique_ptr<RankController> rank_controller_;
  kernels::Arena arena_;
  kernels::Arena::Piece device_state_ = 0;

  TrainingProgress progress_;
  std::optional<NearestModel> nearest_;  // rank 0 only
  std::unique_ptr<ModelPlan> plan_;
  std::unique_ptr<Objective> objective_;
  std::unique_ptr<AdamW> optimizer_;

  Batch batch_;
  LastStep last_;
  int64_t first_step_ = 0;     // of this attempt
  int64_t reported_step_ = 0;  // throughput is measured from here
  absl::Time reported_time_;
  double step_seconds_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_TRAINER_H_
