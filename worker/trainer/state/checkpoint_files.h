// The files of a job's training states, whatever these hold.
#ifndef COMERA_WORKER_TRAINER_STATE_CHECKPOINT_FILES_H_
#define COMERA_WORKER_TRAINER_STATE_CHECKPOINT_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/state/checkpoint_name.h"

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

// Returns `contents` with their SHA-256 in a last line.
std::string Seal(std::string contents);
// Returns the contents without that line. DataLoss: there is none, or it is
// that of other contents.
absl::StatusOr<std::string> Unseal(std::string sealed);

// Keeps the newest states of one job, one in each file (checkpoint_name.h),
// sealed. A snapshot is like a checkpoint, but not durable: it is there for the
// worker to copy, and to lose fewer steps when only the process ends.
//
// States are named by the attempt that saves them and by their step, and the
// newest is that of the highest attempt: what an earlier attempt saved after it
// had been given up counts for less, however far it got. Not thread-safe.
class SealedStates {
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
  };

  // No other process may write to the folder.
  SealedStates(std::unique_ptr<CheckpointFiles> files, const Options& options);

  // Writes the state, then removes leftovers, what the same attempt has saved
  // of later steps (a run which this one does not continue), and what are too
  // many. Returns the file's size. ResourceExhausted: disk full; older
  // checkpoints are then all still there.
  absl::StatusOr<int64_t> Save(int64_t step, std::string contents,
                               bool snapshot);

  // Takes the contents of a state. DataLoss: they are damaged, and the next
  // state is tried; any other error ends the search.
  using Take =
      std::function<absl::Status(const CheckpointName& name, std::string)>;
  // Gives `take` the newest state, or the newest that is not damaged; returns
  // false if there is none at all. `damaged`, unless null, gets a line for each
  // that was passed over. DataLoss: there are some, and all are damaged. Other
  // errors are those of `take`.
  absl::StatusOr<bool> LoadNewest(const Take& take,
                                  std::vector<std::string>* damaged = nullptr);
  // Does the same with the state of this name and no other, from a checkpoint
  // or a snapshot. If the attempt of `key` is 0, any attempt's will do; if a
  // file does not tell its attempt, it is taken after those that do. NotFound:
  // there is none.
  absl::Status Load(const StateKey& key, const Take& take,
                    std::vector<std::string>* damaged = nullptr);

 private:
  // Whether an earlier attempt saved the state after this one's start.
  bool IsAbandoned(const StateKey& key) const;
  // The files of both kinds, newest last. `leftovers`, unless null, gets the
  // files of writes that were cut short.
  absl::StatusOr<std::vector<CheckpointName>> Names(
      std::vector<std::string>* leftovers = nullptr);
  // Takes the first good one of `names`.
  absl::StatusOr<bool> LoadFirst(const std::vector<CheckpointName>& names,
                                 const Take& take,
                                 std::vector<std::string>* damaged);

  const std::unique_ptr<CheckpointFiles> files_;
  const Options options_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STATE_CHECKPOINT_FILES_H_
