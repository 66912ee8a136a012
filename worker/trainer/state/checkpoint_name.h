// The names of checkpoint files. The worker reads them too
// (worker/checkpoint/checkpoint_names.h).
#ifndef COMERA_WORKER_TRAINER_STATE_CHECKPOINT_NAME_H_
#define COMERA_WORKER_TRAINER_STATE_CHECKPOINT_NAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace comera::trainer {

// Names a training state of a job. States are ordered by attempt, then by step:
// a later attempt knew better where to go on from, even if that was further
// back.
struct StateKey {
  // The attempt that saved it; 0: unknown, as in files of earlier versions.
  int64_t attempt = 0;
  int64_t step = 0;
};

inline bool operator<(const StateKey& a, const StateKey& b) {
  return std::tie(a.attempt, a.step) < std::tie(b.attempt, b.step);
}
inline bool operator==(const StateKey& a, const StateKey& b) {
  return a.attempt == b.attempt && a.step == b.step;
}

// A checkpoint's file.
struct CheckpointName {
  StateKey key;
  // True for a state that was saved between two checkpoints.
  bool snapshot = false;
};

// Orders by state; of the same state, a snapshot comes before a checkpoint.
inline bool operator<(const CheckpointName& a, const CheckpointName& b) {
  if (!(a.key == b.key)) return a.key < b.key;
  return a.snapshot && !b.snapshot;
}

// The file's name: step-<12 digits>.attempt-<n>.checkpoint or .snapshot, and
// without the attempt if that is 0.
std::string ToFileName(const CheckpointName& name);
// Nothing if the file is no checkpoint.
std::optional<CheckpointName> ParseCheckpointFile(std::string_view file);

// True for a file that a process left behind when it was killed while writing.
bool IsCheckpointLeftover(std::string_view file);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STATE_CHECKPOINT_NAME_H_
