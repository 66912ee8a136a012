// Opens regular files safely and reads small ones whole.
#include "worker/trainer/data/source/read_limited.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

absl::Status ErrnoError(int error, const std::string& path) {
  return absl::ErrnoToStatus(error, PrintablePath(path));
}

}  // namespace

absl::StatusOr<int> OpenRegularFile(const std::string& path, bool follow) {
  const int flags =
      O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW);
  const int fd = open(path.c_str(), flags);
  if (fd < 0) return ErrnoError(errno, path);
  struct stat info;
  if (fstat(fd, &info) != 0) {
    const int error = errno;
    close(fd);
    return ErrnoError(error, path);
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(
        absl::StrCat(PrintablePath(path), ": not a regular file"));
  }
  return fd;
}

absl::StatusOr<std::string> ReadLimited(const std::string& path, int64_t limit,
                                        bool follow) {
  ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, follow));
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoError(errno, path);
  const absl::Status too_long = absl::InvalidArgumentError(
      absl::StrCat(PrintablePath(path), ": longer than ", limit, " bytes"));
  if (info.st_size > limit) return too_long;
  // One byte more than expected shows the end without another allocation.
  std::string contents(static_cast<size_t>(info.st_size) + 1, '\0');
  size_t size = 0;
  while (true) {
    const ssize_t count = read(fd, &contents[size], contents.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoError(errno, path);
    if (count == 0) break;
    size += static_cast<size_t>(count);
    if (static_cast<int64_t>(size) > limit) return too_long;
    if (size == contents.size()) contents.resize(2 * size);
  }
  contents.resize(size);
  return contents;
}

absl::StatusOr<std::string> FileStamp(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoError(errno, path);
  return absl::StrCat(path, "|", info.st_size, "|", info.st_mtim.tv_sec, ".",
                      info.st_mtim.tv_nsec);
}

}  // namespace comera::trainer
