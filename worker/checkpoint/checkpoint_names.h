// What the worker knows of the trainer's checkpoints: their names, and whether
// one is whole. Their contents are the trainer's (trainer/checkpoint.h).
#ifndef COMERA_WORKER_CHECKPOINT_CHECKPOINT_NAMES_H_
#define COMERA_WORKER_CHECKPOINT_CHECKPOINT_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace comera::worker {

struct CheckpointName {
  int64_t step = 0;
  // Taken between two checkpoints.
  bool snapshot = false;
};

// step-<12 digits>.checkpoint or .snapshot.
std::string ToFileName(const CheckpointName& name);
std::optional<CheckpointName> ParseCheckpointName(std::string_view file);

// In the folder, by ascending step.
std::vector<CheckpointName> ListCheckpointFiles(const std::string& folder);

// It ends with the checksum of the rest.
bool IsWhole(std::string_view contents);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_NAMES_H_
