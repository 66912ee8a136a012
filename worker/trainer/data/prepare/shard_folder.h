#ifndef COMERA_WORKER_TRAINER_DATA_PREPARE_SHARD_FOLDER_H_
#define COMERA_WORKER_TRAINER_DATA_PREPARE_SHARD_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::trainer {

// A folder that this process alone prepares, as long as the object lives.
class ShardFolder {
 public:
  // Makes the folder where it is missing, and locks it. FailedPrecondition:
  // another process prepares it; errors of ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<ShardFolder>> Lock(
      const std::string& path);
  ~ShardFolder();
  ShardFolder(const ShardFolder&) = delete;
  ShardFolder& operator=(const ShardFolder&) = delete;

  const std::string& path() const { return path_; }
  bool IsEmpty() const;

  // What follows removes what it names and nothing else; errors of ErrnoStatus.

  // Removes the index.
  absl::Status RemoveIndex() const;
  // Removes shards with numbers of `from` and above, and files that a killed
  // writer left.
  absl::Status RemoveShardsFrom(size_t from) const;
  // Removes the file that tells how far a preparation has come.
  absl::Status RemoveState() const;

 private:
  ShardFolder(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_PREPARE_SHARD_FOLDER_H_
