#ifndef COMERA_WORKER_TRAINER_LOOP_STATE_KEEPER_H_
#define COMERA_WORKER_TRAINER_LOOP_STATE_KEEPER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/trainer/loop/divergence_guard.h"
#include "worker/trainer/loop/late_stage.h"
#include "worker/trainer/loop/step_reporter.h"
#include "worker/trainer/loop/trained_model.h"
#include "worker/trainer/loop/trainer_options.h"
#include "worker/trainer/loop/training_schedule.h"
#include "worker/trainer/state/checkpoint.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// Keeps a job's training state beyond its process: loads it from a checkpoint,
// and saves checkpoints, snapshots and the end of the early stage. Member 0
// does that; on the others saving does nothing.
//
// Checkpoints are durable and saved where the schedule says; snapshots lie
// between them, are cheaper, and are saved as far as time allows. Not
// thread-safe.
class StateKeeper {
 public:
  // `files` may be null: then nothing is saved. The objects behind the pointers
  // must outlive this.
  StateKeeper(const TrainerOptions* options, const TrainingSchedule* schedule,
              const TrainingProgress* progress, TrainedModel* model,
              const LateStage* late_stage, const DivergenceGuard* guard,
              StepReporter* reporter, std::unique_ptr<CheckpointFiles> files);

  // Names the parts of the specification that the numbers depend on.
  const std::string& fingerprint() const { return fingerprint_; }

  // Names the samples that the job reads here. Errors are those of the data.
  absl::Status DigestData();
  const std::string& data_digest() const { return data_digest_; }

  // After DigestData, the state to go on from, on member 0. If the options say
  // resume and name a start, it is that one and no other. If they say resume
  // without one, it is the newest good checkpoint. Else it is the checkpoint
  // that the job starts from, else nothing. Damaged checkpoints that are passed
  // over are incidents.
  //
  // CHECKPOINT_UNREACHABLE: the named start is not here.
  // CHECKPOINT_DAMAGED: it is damaged, or there are checkpoints and none is
  // good. DataLoss: the
  // samples are not those that the checkpoint was trained on.
  // FailedPrecondition: it belongs to another specification.
  absl::StatusOr<std::optional<TrainingState>> Load();
  // The state after so many steps is safe.
  void Begin(int64_t step) { saved_step_ = step; }

  // The state as it is. All figures must have been read (StepEngine::ReadAll).
  absl::StatusOr<TrainingState> Capture() const;
  // Saves a checkpoint. One that cannot be written is an incident.
  void SaveCheckpoint();
  // Whether enough steps and enough time have passed for a snapshot.
  bool SnapshotDue(absl::Time now) const;
  // Saves a snapshot, which has cost the time since `begin`.
  void SaveSnapshot(absl::Time begin);
  // Hands the state out as the late stages of other jobs start from it.
  absl::Status ExportEarlyStage() const;

 private:
  absl::StatusOr<std::optional<TrainingState>> LoadNewest();
  absl::StatusOr<TrainingState> LoadNamed(const StateKey& start);
  // Tells of damaged files, and compares the samples.
  absl::StatusOr<TrainingState> Accept(CheckpointStore::Loaded loaded);
  // The state in start_from's checkpoint, as if this job had got there.
  absl::StatusOr<TrainingState> LoadStart() const;
  absl::Status CheckData(const TrainingState& state) const;

  const TrainerOptions& options_;
  const TrainingSchedule& schedule_;
  const TrainingProgress& progress_;
  TrainedModel& model_;
  const LateStage& late_stage_;
  const DivergenceGuard& guard_;
  StepReporter& reporter_;
  const std::string fingerprint_;
  std::unique_ptr<CheckpointStore> checkpoints_;
  std::string data_digest_;         // from DigestData on
  bool checkpoint_failed_ = false;  // the last one
  int64_t saved_step_ = 0;          // also by a snapshot
  absl::Time snapshot_time_ = absl::InfinitePast();
  absl::Duration snapshot_cost_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_STATE_KEEPER_H_
