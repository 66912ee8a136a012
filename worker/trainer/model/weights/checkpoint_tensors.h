#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_CHECKPOINT_TENSORS_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_CHECKPOINT_TENSORS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/safetensors.h"

namespace comera::trainer {

// The tensors of a checkpoint: of a safetensors file, or of a folder with
// model.safetensors, or with model.safetensors.index.json, which says in which
// file of the folder (a shard) each tensor is.
//
// One file at a time is in memory, the one that was asked for last, so tensors
// are best read in the order in which they were saved. Files may be hostile:
// none above `max_file_bytes` is read, and none outside the folder.
class CheckpointTensors {
 public:
  // Errors of ReadLimited and Safetensors::Parse; DataLoss: the index is
  // malformed or names a file that is not in the folder.
  static absl::StatusOr<CheckpointTensors> Open(const std::string& path,
                                                int64_t max_file_bytes);

  const std::string& path() const { return path_; }
  // The folder that the files are in.
  const std::string& folder() const { return folder_; }
  const std::set<std::string>& names() const { return names_; }

  // NotFound: no such tensor. DataLoss: it is not in the shard that the index
  // names. GetFloat converts from the floating-point types; InvalidArgument: it
  // has another type.
  absl::StatusOr<std::vector<int64_t>> GetShape(const std::string& name);
  absl::StatusOr<std::vector<float>> GetFloat(const std::string& name);

 private:
  CheckpointTensors() = default;
  absl::Status ReadIndex(const std::string& index);
  // Makes sure that the tensor's file is in memory.
  absl::Status Load(const std::string& name);

  std::string path_;
  std::string folder_;
  int64_t max_file_bytes_ = 0;
  std::set<std::string> names_;
  // By name of the tensor; empty where there is one file only.
  std::map<std::string, std::string> shards_;
  std::string loaded_;  // name of the shard in memory
  Safetensors file_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_CHECKPOINT_TENSORS_H_
