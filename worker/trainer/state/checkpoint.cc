// Writes training states into sealed files, and reads them back.
#include "worker/trainer/state/checkpoint.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {

absl::StatusOr<TrainingState> ParseCheckpoint(std::string contents) {
  ASSIGN_OR_RETURN(const std::string state, Unseal(std::move(contents)));
  return TrainingState::Parse(state);
}

absl::StatusOr<std::string> CheckpointContents(const TrainingState& state) {
  ASSIGN_OR_RETURN(std::string contents, state.Serialize());
  return Seal(std::move(contents));
}

CheckpointStore::CheckpointStore(std::unique_ptr<CheckpointFiles> files,
                                 const Options& options)
    : states_(std::move(files), options),
      former_fingerprint_(options.former_fingerprint) {}

absl::StatusOr<int64_t> CheckpointStore::Save(const TrainingState& state) {
  return Write(state, /*snapshot=*/false);
}

absl::StatusOr<int64_t> CheckpointStore::SaveSnapshot(
    const TrainingState& state) {
  return Write(state, /*snapshot=*/true);
}

absl::StatusOr<int64_t> CheckpointStore::Write(const TrainingState& state,
                                               bool snapshot) {
  ASSIGN_OR_RETURN(std::string contents, state.Serialize());
  return states_.Save(state.progress.step, std::move(contents), snapshot);
}

SealedStates::Take CheckpointStore::Into(Loaded* loaded,
                                         const std::string& fingerprint) const {
  return [this, loaded, fingerprint](const CheckpointName& name,
                                     std::string contents) -> absl::Status {
    absl::StatusOr<TrainingState> state = TrainingState::Parse(contents);
    if (!state.ok()) return absl::DataLossError(state.status().message());
    if (state->progress.step != name.key.step) {
      return absl::DataLossError(
          absl::StrCat("holds the state of step ", state->progress.step));
    }
    if (!former_fingerprint_.empty() &&
        state->fingerprint == former_fingerprint_) {
      state->fingerprint = fingerprint;
    }
    if (state->fingerprint != fingerprint) {
      return absl::FailedPreconditionError(absl::StrCat(
          "checkpoint ", ToFileName(name),
          " belongs to another specification (model, data, compression, "
          "objective, optimizer or training differ); use another work_dir or "
          "remove it"));
    }
    loaded->state = *std::move(state);
    return absl::OkStatus();
  };
}

absl::StatusOr<std::optional<CheckpointStore::Loaded>>
CheckpointStore::LoadNewest(const std::string& fingerprint) {
  Loaded loaded;
  ASSIGN_OR_RETURN(
      const bool found,
      states_.LoadNewest(Into(&loaded, fingerprint), &loaded.damaged));
  if (!found) return std::optional<Loaded>();
  return std::optional<Loaded>(std::move(loaded));
}

absl::StatusOr<CheckpointStore::Loaded> CheckpointStore::Load(
    const StateKey& key, const std::string& fingerprint) {
  Loaded loaded;
  RETURN_IF_ERROR(
      states_.Load(key, Into(&loaded, fingerprint), &loaded.damaged));
  return loaded;
}

}  // namespace comera::trainer
