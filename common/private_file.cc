// Reads files that hold secrets.
#include "common/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace comera {
namespace {

constexpr off_t kMaxFileBytes = 64 << 10;

}  // namespace

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ErrnoStatus(errno, path);
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  struct stat info = {};
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode) || info.st_size > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no file of at most 64 KiB"));
  }
  // Kubernetes and systemd give a secret to the group of who needs it.
  if ((info.st_mode & 037) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path,
        ": others than its owner and group may use this file, or its "
        "group may write to it: chmod 600 it"));
  }
  std::string contents(kMaxFileBytes, '\0');
  size_t size = 0;
  while (size < contents.size()) {
    const ssize_t count =
        read(fd, contents.data() + size, contents.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, path);
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  contents.resize(size);
  return contents;
}

}  // namespace comera
