// Asks the system for free room, and keeps some of it in a file.
#include "server/runtime/disk_space.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace comera::server {

absl::StatusOr<int64_t> StatvfsDiskSpace::FreeBytes() {
  struct statvfs disk = {};
  if (statvfs(folder_.c_str(), &disk) != 0) {
    return absl::UnavailableError(
        absl::StrCat("statvfs ", folder_, ": ", strerror(errno)));
  }
  return static_cast<int64_t>(disk.f_bavail) *
         static_cast<int64_t>(disk.f_frsize);
}

absl::Status ReserveFile(const std::string& path, int64_t bytes) {
  struct stat known = {};
  if (stat(path.c_str(), &known) == 0 && known.st_size == bytes) {
    return absl::OkStatus();
  }
  const int fd =
      open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("open ", path, ": ", strerror(errno)));
  }
  const int error = posix_fallocate(fd, 0, bytes);
  close(fd);
  if (error == 0) return absl::OkStatus();
  unlink(path.c_str());
  const std::string text = absl::StrCat("reserve ", bytes, " bytes in ", path,
                                        ": ", strerror(error));
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(text)
                                            : absl::UnavailableError(text);
}

}  // namespace comera::server
