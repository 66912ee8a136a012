// The part of the trainer's checkpoint format that the worker understands: file
// names, and which of the states that they name is the one looked for. The
// trainer alone reads the contents (trainer/state/checkpoint.h).
#ifndef COMERA_WORKER_CHECKPOINT_CHECKPOINT_NAMES_H_
#define COMERA_WORKER_CHECKPOINT_CHECKPOINT_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "worker/files/path_below.h"

namespace comera::worker {

// The largest step and attempt that a file's name can hold: twelve digits.
inline constexpr int64_t kMaxNamed = 999'999'999'999;

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

struct CheckpointName {
  int64_t step = 0;
  // True for a state that was saved between two checkpoints.
  bool snapshot = false;
  int64_t attempt = 0;

  StateKey key() const { return {attempt, step}; }
};

// Whether the state of `a` is older than that of `b`; of the same state, a
// snapshot comes before a checkpoint.
inline bool IsOlder(const CheckpointName& a, const CheckpointName& b) {
  if (!(a.key() == b.key())) return a.key() < b.key();
  return a.snapshot && !b.snapshot;
}

// The file's name: step-<12 digits>.attempt-<n>.checkpoint or .snapshot, and
// without the attempt if that is 0.
std::string ToFileName(const CheckpointName& name);
// Nothing if the file is no checkpoint.
std::optional<CheckpointName> ParseCheckpointName(std::string_view file);

// The checkpoint files of the folder, newest last; none if it cannot be reached
// without following a link. Only plain files count.
std::vector<CheckpointName> ListCheckpointFiles(const PathBelow& folder);

// Selects the names that may be the state of `key`, the likeliest first: the
// attempt's own, then the ones whose attempt is unknown. If the key's own
// attempt is 0, any attempt's will do, the newest first.
std::vector<CheckpointName> NamesOf(const StateKey& key,
                                    std::vector<CheckpointName> names);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_NAMES_H_
