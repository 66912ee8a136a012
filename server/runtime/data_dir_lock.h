#ifndef COMERA_SERVER_RUNTIME_DATA_DIR_LOCK_H_
#define COMERA_SERVER_RUNTIME_DATA_DIR_LOCK_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/runtime/file_handle.h"

namespace comera::server {

// Holds a data folder for one process, until destroyed or the process ends.
class DataDirLock {
 public:
  enum class Kind {
    // One process alone uses the folder.
    kExclusive,
    // Several coordinators, which settle elsewhere which of them writes, share
    // the folder for its files.
    kShared,
  };

  // Creates the folder if need be. FailedPrecondition: another process has it,
  // or it belongs to another user (CheckOwnFolder).
  static absl::StatusOr<DataDirLock> Acquire(const std::string& data_dir,
                                             Kind kind = Kind::kExclusive);

 private:
  explicit DataDirLock(FileHandle file) : file_(std::move(file)) {}
  FileHandle file_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_RUNTIME_DATA_DIR_LOCK_H_
