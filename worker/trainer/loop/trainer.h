#ifndef COMERA_WORKER_TRAINER_LOOP_TRAINER_H_
#define COMERA_WORKER_TRAINER_LOOP_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <deque>
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
#include "kernels/machine_speed.h"
#include "worker/collective/communicator.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/late/size_controller.h"
#include "worker/trainer/loop/late_numbers.h"
#include "worker/trainer/loop/rank_controller.h"
#include "worker/trainer/loop/step_runner.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/weights/initial_weights.h"
#include "worker/trainer/objective/objective.h"
#include "worker/trainer/optimizer/optimizer.h"
#include "worker/trainer/planning/model_plan.h"
#include "worker/trainer/planning/phase_table.h"
#include "worker/trainer/process/event_writer.h"
#include "worker/trainer/process/heartbeat.h"
#include "worker/trainer/state/checkpoint.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

struct TrainerOptions {
  // Valid (job_validation) and with its defaults filled in (job_defaults).
  v1::JobSpec spec;
  // Continue from the newest good checkpoint, if there is one.
  bool resume = false;

  // Rank 0 only: reads the checkpoint that spec.start_from names
  // (checkpoint.h). Used where no checkpoint of the job itself is. Empty: there
  // is none.
  std::function<absl::StatusOr<std::string>()> read_start;
  // Rank 0 only, early.only: takes the checkpoint of the end of the early
  // stage. Empty: it is not kept.
  std::function<absl::Status(const std::string& contents)> export_early_stage;

  // Of this machine (calibration.h). Rank 0's hold for all ranks, and for runs
  // that resume this one: the planner's choice changes rounding.
  kernels::MachineSpeed machine;

  // Whether steps no larger than one before run on a sealed backend, where an
  // allocation is an error: in debug builds.
#ifdef NDEBUG
  bool seal_steps = false;
#else
  bool seal_steps = true;
#endif

  // Whether the whole job is compared with the backend's free memory before any
  // is taken. Where the system can swap, that would refuse what works.
  bool check_memory = false;
  // Whether metrics tell how much of the backend's memory was taken since
  // Create: where it is not the host's, which is told anyway.
  bool report_device_memory = false;

  // Whether steps are captured and replayed (step_runner.h) on a backend that
  // can; their batches are then padded to few shapes (plan/batch_padding.h).
  bool graphs = true;

  // All pointers must outlive the trainer.
  kernels::Backend* backend = nullptr;
  // What that computes on, for reports.
  std::string device;
  const TrainingData* data = nullptr;
  // Null: one rank.
  collective::Communicator* communicator = nullptr;
  // Rank 0 only: where checkpoints lie. Null: none are written.
  std::unique_ptr<CheckpointFiles> checkpoint_files;
  // Steps between two snapshots, which are taken as far as they cost less than
  // a twentieth of the time; 0: none.
  int64_t snapshot_every_steps = 0;

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
  // The same for the model that came nearest to a target of a list, as soon as
  // its approach has ended; again after a resume. `target` counts from 0.
  std::function<absl::Status(int target, const ModelConfig& config,
                             const std::vector<float>& parameters,
                             const v1::TrainingResult& result)>
      export_target;

  ModelFactory model_factory = CreateModel;
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
// that cannot be written is an incident, and training goes on; so is a damaged
// one that is passed over. CHECKPOINT_DAMAGED: there are some, and none is
// good. DATA: the samples are not those that the checkpoint was trained on.
class Trainer {
 public:
  // InvalidArgument: spec, or initial weights that do not fit it. DataLoss:
  // start_from's checkpoint is damaged.
  // FailedPrecondition: the checkpoint belongs to another spec. A checkpoint
  // goes before initial weights, whose file is then not read.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      TrainerOptions options);

  // `stop`, once true on any rank, ends all ranks after the same step.
  absl::StatusOr<RunEnd> Run(const std::atomic<bool>& stop);

  const TrainingProgress& progress() const { return progress_; }
  // Done and still planned; falls when a target is met early.
  int64_t total_steps() const;
  const StepRunner::Counters& graph_counters() const {
    return runner_.counters();
  }

 private:
  // What a step gave, for reports.
  struct StepFigures {
    int64_t step = 0;  // how many were done with it
    double loss = 0;
    ObjectiveStep objective;
    double learning_rate_scale = 1;
    double gradient_norm = 0;
    v1::Stage stage = v1::EARLY;
    bool stop = false;
  };

  // What a step reads on the device.
  struct DeviceStep {
    kernels::StepState state;
    float stop = 0;  // of this rank
    float unused = 0;
  };

  explicit Trainer(TrainerOptions options);

  // --- state (trainer_state.cc)
  absl::Status Start();
  absl::StatusOr<TrainingState> LoadOrInitialise();
  // The state in start_from's checkpoint, as if this job had got there.
  absl::StatusOr<TrainingState> LoadStart();
  // Puts initial_weights, if the job has them, over the random ones.
  absl::Status WarmStart(float* parameters);
  absl::Status Share(TrainingState& state);
  absl::Status Adopt(TrainingState state);
  // DataLoss: not as many numbers as the model with these ranks has.
  absl::Status CheckFits(const NearestModel& nearest) const;
  absl::Status CheckFits(const BranchPoint& branch) const;
  absl::StatusOr<TrainingState> Capture();
  absl::StatusOr<std::unique_ptr<ModelPlan>> MakePlan(
      ModelConfig config, const TrainingPhase& phase) const;
  // ResourceExhausted: training with these ranks does not fit (memory_check.h).
  absl::Status CheckFree(const ModelConfig& config) const;
  // Objective and optimiser for the plan as it is.
  absl::Status BindPlan();
  // The plan for steps of this phase.
  absl::Status PlanFor(const TrainingPhase& phase);
  // Another plan, holding this state.
  absl::Status Rebuild(const BranchPoint& branch);
  void SaveCheckpoint();
  void SaveSnapshot();
  // A checkpoint of other samples must not be gone on with.
  absl::Status CheckData(const TrainingState& state) const;

  // --- the numbers of a step (trainer_step.cc)
  absl::Status TrainStep(bool stop);
  absl::Status RunStep(bool stop);  // on batch_
  // The gradient of this rank's losses, with its tail.
  absl::Status EnqueueGradients();
  // Sums both over the ranks: enqueues if the communicator is on the device.
  absl::Status ReduceGradients();
  // After the host has waited for a step: a sum that was given up ends on the
  // device too, and what follows it there runs on gradients of nobody. Errors:
  // those of the communicator, which come before the device goes on.
  absl::Status CheckGang();
  // The update that asks nothing of the host.
  absl::Status EnqueueUpdate();
  // The update with the host in between.
  absl::Status UpdateFromHost(StepFigures* figures);
  // last_ becomes the oldest step that was enqueued and not looked at. Errors:
  // NAN_LOSS.
  absl::Status TakeStep();
  absl::Status TakeTail(const float* tail, StepFigures* figures);
  // Takes all steps that were enqueued, and reports those that are due.
  absl::Status CatchUp();
  bool ReportDue() const;
  // Whether something that follows the step depends on what it gave.
  bool FiguresNeeded() const;
  float* tail() { return plan_->reduced().data + plan_->trained_size(); }
  kernels::StepState* device_state() const { return &device_step()->state; }
  DeviceStep* device_step() const {
    return static_cast<DeviceStep*>(arena_.Address(device_step_));
  }

  // --- steps (trainer.cc)
  absl::StatusOr<RunEnd> Train(const std::atomic<bool>& stop);
  absl::Status AfterStep();
  absl::Status TakeSnapshotIfDue();
  absl::Status Compact();
  bool CheckpointDue() const;
  bool ValidationDue() const;
  absl::Status RunValidation();
  void LogGraphs();
  absl::StatusOr<RunEnd> Finish();
  absl::Status ExportCompacted(
      const ModelConfig& config, const std::vector<float>& parameters,
      const std::function<absl::Status(const ModelConfig&,
                                       const std::vector<float>&)>& write);

  // --- late stage (trainer_late.cc)
  bool LateStageDue() const;
  // With early.only: hands the state out as a late stage would find it, then
  // validates.
  absl::Status EndEarlyStage();
  // True: it began just now, and the model was validated.
  absl::StatusOr<bool> EnterLateStageIfDue();
  absl::Status MakePlanCanonical();
  void BeginApproach();
  absl::Status KeepBranchPoint();
  absl::Status ReturnToBranchPoint();
  // After validation: are the targets met, and is no other model nearer?
  absl::Status JudgeTarget(int64_t size);
  // True: an approach ended; the next, if any, has begun.
  absl::StatusOr<bool> EndTargetsIfDue();
  absl::Status ExportTarget(size_t index);
  Approach MakeApproach(const StepFigures& figures) const;
  // The target that is being approached, or else the last.
  const v1::Target& target() const;
  int64_t approach_steps() const;
  // The last own_step() of an approach, or of the early stage without any.
  int64_t own_last_step() const;
  bool Finished() const;

  // --- reports (trainer_reports.cc)
  void Emit(v1::TrainerEvent event);
  void EmitIncident(v1::FailureClass failure_class, const std::string& what);
  void ReportRunInfo();
  absl::Status ReportRanks();
  void ReportMetrics(bool validated);
  v1::TrainingResult MakeResult() const;
  static void FillResult(const TargetOutcome& outcome,
                         v1::TrainingResult* result);

  int rank() const;
  int world_size() const;
  // An early stage alone is planned like that of a job with both.
  bool early_only() const { return options_.spec.objective().early().only(); }
  bool has_late_stage() const {
    return options_.spec.objective().has_late() && !early_only();
  }
  bool is_pareto() const {
    return options_.spec.objective().kind() == v1::ObjectiveSpec::PARETO;
  }
  // How many of them each validation runs on.
  int64_t ValidationSamples() const;
  // Smoothed training loss, corrected to what validation would say.
  double EstimatedValidationLoss() const;

  TrainerOptions options_;
  const std::string fingerprint_;
  std::string data_digest_;  // rank 0 only
  std::unique_ptr<CheckpointStore> checkpoints_;
  const std::vector<v1::Target> targets_;
  const PhaseTable phases_;
  ModelConfig initial_config_;
  std::unique_ptr<RankController> rank_controller_;
  bool checkpoint_failed_ = false;  // the last one
  int64_t saved_step_ = 0;          // also by a snapshot
  absl::Time snapshot_time_ = absl::InfinitePast();
  absl::Duration snapshot_cost_;
  kernels::Arena arena_;
  kernels::Arena::Piece device_step_ = 0;
  int64_t free_at_start_ = 0;  // with report_device_memory

  TrainingProgress progress_;
  std::optional<NearestModel> nearest_;  // rank 0 only
  std::optional<BranchPoint> branch_;
  // Late stage of the pareto objective: what size_controller_ starts from.
  std::optional<SizeControl> control_;
  // Rank 0 only; empty unless this attempt began with initial weights.
  std::vector<InitialWeightsReport::LayerError> initial_errors_;
  std::unique_ptr<ModelPlan> plan_;
  std::unique_ptr<Objective> objective_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<SizeController> size_controller_;  // iff control_

  Batch batch_;
  // Of the largest batch that ran since the plan was bound: what operations
  // need beside the plan is there then.
  int64_t warm_tokens_ = 0, warm_labels_ = 0;
  StepRunner runner_;
  StepRunner::Shape shape_;
  // Iff the update asks nothing of the host; on a backend that runs behind it
  // the figures of a step are then looked at one step later.
  std::unique_ptr<LateNumbers> late_numbers_;
  std::deque<StepFigures> pending_;  // enqueued, and not looked at
  StepFigures last_;
  int64_t stop_step_ = -1;     // the first in which a rank was asked to stop
  bool figures_known_ = true;  // those of the last step, to all ranks
  int64_t first_step_ = 0;     // of this attempt
  // Of the last step.
  const TrainingPhase* stepped_phase_ = nullptr;
  v1::Stage stepped_stage_ = v1::STAGE_UNSPECIFIED;
  int64_t reported_step_ = 0;  // throughput is measured from here
  absl::Time reported_time_;
  double step_seconds_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_TRAINER_H_
