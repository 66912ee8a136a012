// Locks a data directory against a second server.
#include "server/runtime/data_dir_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::server {

absl::StatusOr<DataDirLock> DataDirLock::Acquire(const std::string& data_dir,
                                                 Kind kind) {
  RETURN_IF_ERROR(MakeDirectories(data_dir));
  RETURN_IF_ERROR(CheckOwnFolder(data_dir));
  const std::string path = absl::StrCat(data_dir, "/lock");
  ASSIGN_OR_RETURN(FileHandle file, FileHandle::Open(path, O_RDWR | O_CREAT));
  const int lock = kind == Kind::kShared ? LOCK_SH : LOCK_EX;
  if (flock(file.fd(), lock | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return absl::FailedPreconditionError(
          absl::StrCat(data_dir, " is in use by another comera-server (", path,
                       " is locked)"));
    }
    return ErrnoStatus(errno, path);
  }
  return DataDirLock(std::move(file));
}

}  // namespace comera::server
