// Loads the state that training goes on from, and saves it on the way.
#include "worker/trainer/loop/state_keeper.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "worker/trainer/process/failure.h"
#include "worker/trainer/state/data_digest.h"

namespace comera::trainer {

StateKeeper::StateKeeper(const TrainerOptions* options,
                         const TrainingSchedule* schedule,
                         const TrainingProgress* progress, TrainedModel* model,
                         const LateStage* late_stage,
                         const DivergenceGuard* guard, StepReporter* reporter,
                         std::unique_ptr<CheckpointFiles> files)
    : options_(*options),
      schedule_(*schedule),
      progress_(*progress),
      model_(*model),
      late_stage_(*late_stage),
      guard_(*guard),
      reporter_(*reporter),
      fingerprint_(SpecFingerprint(options->spec)) {
  if (files == nullptr) return;
  CheckpointStore::Options kept;
  kept.keep = options->spec.checkpoint().keep();
  kept.attempt = options->attempt;
  kept.former_fingerprint = FormerSpecFingerprint(options->spec);
  if (options->resume) kept.start = options->start;
  checkpoints_ = std::make_unique<CheckpointStore>(std::move(files), kept);
}

absl::Status StateKeeper::DigestData() {
  std::vector<int32_t> dense_tokens;
  for (const auto& [key, f] : model_.initial_config().layers_by_name) {
    if (!f.dense_tokens.empty()) dense_tokens = f.dense_tokens;
  }
  ASSIGN_OR_RETURN(
      const std::string samples,
      DataDigest(*options_.data, schedule_.phases().At(0).batch_size,
                 dense_tokens));
  data_digest_ = WithFetchedFiles(samples, options_.spec);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TrainingState>> StateKeeper::Load() {
  if (options_.resume && options_.start.has_value()) {
    return LoadNamed(*options_.start);
  }
  if (options_.resume && checkpoints_ != nullptr) {
    ASSIGN_OR_RETURN(std::optional<TrainingState> newest, LoadNewest());
    if (newest.has_value()) return newest;
  }
  if (options_.read_start) return LoadStart();
  return std::nullopt;
}

absl::StatusOr<std::optional<TrainingState>> StateKeeper::LoadNewest() {
  absl::StatusOr<std::optional<CheckpointStore::Loaded>> loaded =
      checkpoints_->LoadNewest(fingerprint_);
  if (absl::IsDataLoss(loaded.status())) {
    return WithFailureClass(loaded.status(), v1::CHECKPOINT_DAMAGED);
  }
  RETURN_IF_ERROR(loaded.status());
  if (!loaded->has_value()) return std::nullopt;
  return Accept(*std::move(*loaded));
}

absl::StatusOr<TrainingState> StateKeeper::LoadNamed(const StateKey& start) {
  absl::StatusOr<CheckpointStore::Loaded> loaded =
      checkpoints_ != nullptr
          ? checkpoints_->Load(start, fingerprint_)
          : absl::NotFoundError("this member keeps no checkpoints");
  if (absl::IsFailedPrecondition(loaded.status())) return loaded.status();
  if (!loaded.ok()) {
    // The same file would be as damaged for the next attempt.
    const bool damaged = absl::IsDataLoss(loaded.status());
    return WithFailureClass(
        absl::DataLossError(
            absl::StrCat("the training state to start from, of step ",
                         start.step, " and attempt ", start.attempt,
                         ", cannot be had: ", loaded.status().message())),
        damaged ? v1::CHECKPOINT_DAMAGED : v1::CHECKPOINT_UNREACHABLE);
  }
  return Accept(*std::move(loaded));
}

absl::StatusOr<TrainingState> StateKeeper::Accept(
    CheckpointStore::Loaded loaded) {
  TrainingState state = std::move(loaded.state);
  for (const std::string& line : loaded.damaged) {
    const std::string what =
        absl::StrCat("damaged checkpoint passed over: ", line);
    options_.log(what);
    reporter_.ReportIncident(
        v1::CHECKPOINT_DAMAGED,
        absl::StrCat(what, "; going on from step ", state.progress.step));
  }
  RETURN_IF_ERROR(CheckData(state));
  return state;
}

absl::StatusOr<TrainingState> StateKeeper::LoadStart() const {
  const std::string& name = options_.spec.start_from().checkpoint();
  ASSIGN_OR_RETURN(std::string contents, options_.read_start());
  absl::StatusOr<TrainingState> state = ParseCheckpoint(std::move(contents));
  if (!state.ok()) {
    return WithFailureClass(
        absl::DataLossError(absl::StrCat(name, ": ", state.status().message())),
        v1::CHECKPOINT_DAMAGED);
  }
  const bool ends_early_stage =
      state->fingerprint == EarlyStageFingerprint(options_.spec) &&
      state->progress.stage == v1::EARLY &&
      state->progress.step == options_.spec.objective().early().steps();
  // Any state goes on as the job went on that saved it.
  if (!ends_early_stage && state->fingerprint != fingerprint_ &&
      state->fingerprint != FormerSpecFingerprint(options_.spec)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "start_from.checkpoint: ", name,
        " is of another training (model, data, compression, objective, "
        "optimizer or training differ)"));
  }
  RETURN_IF_ERROR(CheckData(*state));
  state->fingerprint = fingerprint_;
  state->data_digest = data_digest_;
  return state;
}

absl::Status StateKeeper::CheckData(const TrainingState& state) const {
  if (state.data_digest.empty() || state.data_digest == data_digest_) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "data: the samples are not those that the checkpoint of step ",
      state.progress.step,
      " was trained on; bring the files back, or submit the job anew"));
}

absl::StatusOr<TrainingState> StateKeeper::Capture() const {
  TrainingState state;
  state.fingerprint = fingerprint_;
  state.data_digest = data_digest_;
  state.progress = progress_;
  state.machine = model_.initial_config().machine;
  RETURN_IF_ERROR(model_.Download(&state));
  state.control = model_.size_control();
  late_stage_.Capture(&state);
  guard_.Capture(&state);
  return state;
}

void StateKeeper::SaveCheckpoint() {
  if (options_.member() != 0 || checkpoints_ == nullptr) return;
  options_.Describe("saving a checkpoint");
  absl::StatusOr<TrainingState> state = Capture();
  absl::StatusOr<int64_t> bytes =
      state.ok() ? checkpoints_->Save(*state) : state.status();
  if (!bytes.ok()) {
    const std::string what =
        absl::StrCat("checkpoint at step ", progress_.step,
                     " not written: ", bytes.status().ToString());
    options_.log(what);
    // One incident until it works again.
    if (!std::exchange(checkpoint_failed_, true)) {
      reporter_.ReportIncident(absl::IsResourceExhausted(bytes.status())
                                   ? v1::DISK_FULL
                                   : v1::INTERNAL,
                               absl::StrCat(what, "; training goes on"));
    }
    return;
  }
  checkpoint_failed_ = false;
  saved_step_ = progress_.step;
  reporter_.ReportCheckpoint(*bytes, /*snapshot=*/false);
}

bool StateKeeper::SnapshotDue(absl::Time now) const {
  const int64_t every = options_.snapshot_every_steps;
  return options_.member() == 0 && checkpoints_ != nullptr && every > 0 &&
         progress_.step - saved_step_ >= every &&
         now - snapshot_time_ >= 20 * snapshot_cost_;
}

void StateKeeper::SaveSnapshot(absl::Time begin) {
  options_.Describe("saving a snapshot");
  absl::StatusOr<TrainingState> state = Capture();
  absl::StatusOr<int64_t> bytes =
      state.ok() ? checkpoints_->SaveSnapshot(*state) : state.status();
  saved_step_ = progress_.step;
  // A checkpoint that fails for the same reason will say so.
  if (bytes.ok()) reporter_.ReportCheckpoint(*bytes, /*snapshot=*/true);
  snapshot_time_ = SteadyNow();
  snapshot_cost_ = snapshot_time_ - begin;
}

absl::Status StateKeeper::ExportEarlyStage() const {
  if (options_.member() != 0 || !options_.export_early_stage) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(TrainingState state, Capture());
  state.fingerprint = EarlyStageFingerprint(options_.spec);
  ASSIGN_OR_RETURN(const std::string contents, CheckpointContents(state));
  return options_.export_early_stage(contents);
}

}  // namespace comera::trainer
