// The part of the trainer's checkpoint format that the worker understands: file
// names, and whether a file is whole. The trainer alone reads the contents
// (trainer/checkpoint.h).
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
  // True for a state that was saved between two checkpoints.
  bool snapshot = false;
};

// The file's name: step-<12 digits>.checkpoint or .snapshot.
std::string ToFileName(const CheckpointName& name);
std::optional<CheckpointName> ParseCheckpointName(std::string_view file);

// The checkpoint files of the folder, by ascending step.
std::vector<CheckpointName> ListCheckpointFiles(const std::string& folder);

// Whether `contents` end with the checksum of the rest.
bool IsWhole(std::string_view contents);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_NAMES_H_
