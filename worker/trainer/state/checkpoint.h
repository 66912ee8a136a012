// The checkpoints of a job: where they lie, and which one to go on from.
#ifndef COMERA_WORKER_TRAINER_STATE_CHECKPOINT_H_
#define COMERA_WORKER_TRAINER_STATE_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/state/checkpoint_name.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// The few file operations that checkpoints need; an interface so that tests
// can let each of them fail.
class CheckpointFiles {
 public:
  virtual ~CheckpointFiles() = default;
  // The names in the folder; none if there is no folder.
  virtual absl::StatusOr<std::vector<std::string>> List() = 0;
  virtual absl::StatusOr<std::string> Read(const std::string& name) = 0;
  // Writes all or nothing, durable on return. ResourceExhausted: disk full.
  virtual absl::Status Write(const std::string& name,
                             std::string_view contents) = 0;
  // Write, but a crash of the machine may lose the file; a checksum shows that.
  virtual absl::Status WriteQuickly(const std::string& name,
                                    std::string_view contents) {
    return Write(name, contents);
  }
  virtual absl::Status Remove(const std::string& name) = 0;
};

// Files in `folder`, which is made on the first Write.
std::unique_ptr<CheckpointFiles> OpenCheckpointFolder(std::string folder);

// The contents of a checkpoint file: the serialised state, then its SHA-256.
absl::StatusOr<std::string> CheckpointContents(const TrainingState& state);
// The state in a checkpoint file. DataLoss: it is damaged.
absl::StatusOr<TrainingState> ParseCheckpoint(std::string contents);

// Keeps the newest checkpoints of one job.
//
// A checkpoint is one file (checkpoint_name.h): the serialised TrainingState,
// then a line with its SHA-256. A snapshot is the same and not durable: it is
// there for the worker to copy, and to lose fewer steps when only the process
// ends.
//
// States are named by the attempt that saves them and by their step, and the
// newest is that of the highest attempt: what an earlier attempt saved after it
// had been given up counts for less, however far it got. Not thread-safe.
class CheckpointStore {
 public:
  struct Options {
    // How many checkpoints are kept; at least 2, so that a damaged one is
    // survived.
    int keep = 2;
    // The attempt that saves here; 0: unknown.
    int64_t attempt = 0;
    // The state that the attempt starts from. What earlier attempts saved after
    // it goes first when there are too many.
    std::optional<StateKey> start;
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
  // The state of this name and no other, from a checkpoint or a snapshot. If
  // the attempt of `key` is 0, any attempt's will do; if a file does not tell
  // its attempt, it is taken after those that do. NotFound: there is none.
  // DataLoss: it is damaged. FailedPrecondition: it has another fingerprint.
  absl::StatusOr<Loaded> Load(const StateKey& key,
                              const std::string& fingerprint);

 private:
  // Writes the state, then removes leftovers, what the same attempt has saved
  // of later steps (a run which this one does not continue), and what are too
  // many.
  absl::StatusOr<int64_t> Write(const TrainingState& state, bool snapshot);
  // Whether an earlier attempt saved the state after this one's start.
  bool IsAbandoned(const StateKey& key) const;
  // The files of both kinds, newest last. `leftovers`, unless null, gets the
  // files of writes that were cut short.
  absl::StatusOr<std::vector<CheckpointName>> Names(
      std::vector<std::string>* leftovers = nullptr);
  // The first good one of `names`; nothing if there are none.
  absl::StatusOr<std::optional<Loaded>> LoadFirst(
      const std::vector<CheckpointName>& names, const std::string& fingerprint);

  const std::unique_ptr<CheckpointFiles> files_;
  const Options options_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STATE_CHECKPOINT_H_
