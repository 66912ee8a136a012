// The checkpoints of a job: the training states in its sealed files.
#ifndef COMERA_WORKER_TRAINER_STATE_CHECKPOINT_H_
#define COMERA_WORKER_TRAINER_STATE_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/state/checkpoint_files.h"
#include "worker/trainer/state/checkpoint_name.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// The contents of a checkpoint file: the serialised state, sealed.
absl::StatusOr<std::string> CheckpointContents(const TrainingState& state);
// The state in a checkpoint file. DataLoss: it is damaged.
absl::StatusOr<TrainingState> ParseCheckpoint(std::string contents);

// Keeps the newest checkpoints of one job, which are training states
// (SealedStates). Not thread-safe.
class CheckpointStore {
 public:
  struct Options : SealedStates::Options {
    // A second fingerprint of the same specification that is accepted in files;
    // empty: none.
    std::string former_fingerprint;
  };

  // No other process may write to the folder.
  CheckpointStore(std::unique_ptr<CheckpointFiles> files,
                  const Options& options);

  // Returns the file's size. ResourceExhausted: disk full; older checkpoints
  // are then all still there.
  absl::StatusOr<int64_t> Save(const TrainingState& state);
  // Saves a snapshot, between two checkpoints; the newest two are kept.
  absl::StatusOr<int64_t> SaveSnapshot(const TrainingState& state);

  struct Loaded {
    TrainingState state;
    // One line per preferable checkpoint that was damaged and passed over.
    std::vector<std::string> damaged;
  };
  // The newest good checkpoint or snapshot; nothing if there is none at all.
  // DataLoss: there are some, and all are damaged. FailedPrecondition: the
  // newest good one has another fingerprint.
  absl::StatusOr<std::optional<Loaded>> LoadNewest(
      const std::string& fingerprint);
  // The state of this name and no other (SealedStates::Load). NotFound: there
  // is none. DataLoss: it is damaged. FailedPrecondition: it has another
  // fingerprint.
  absl::StatusOr<Loaded> Load(const StateKey& key,
                              const std::string& fingerprint);

 private:
  absl::StatusOr<int64_t> Write(const TrainingState& state, bool snapshot);
  // Puts the state in a file into `loaded`.
  SealedStates::Take Into(Loaded* loaded, const std::string& fingerprint) const;

  SealedStates states_;
  const std::string former_fingerprint_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STATE_CHECKPOINT_H_
