// Opens files beneath a folder without following links.

#include "worker/files/open_beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "worker/files/descriptor.h"

namespace comera::worker {
namespace {

using Parts = std::vector<std::string>;

int Fail(int error) {
  errno = error;
  return -1;
}

bool IsLink(int folder, const std::string& name) {
  struct stat info = {};
  return fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISLNK(info.st_mode);
}

// Opens one part; a link is ELOOP, whatever the flags make of it.
int OpenPart(int folder, const std::string& name, int flags, mode_t mode) {
  Descriptor fd(
      openat(folder, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode));
  if (fd.get() < 0) {
    const int error = errno;
    return Fail(error == ENOTDIR && IsLink(folder, name) ? ELOOP : error);
  }
  if ((flags & O_PATH) != 0) {
    struct stat info = {};
    if (fstat(fd.get(), &info) != 0) return Fail(errno);
    if (S_ISLNK(info.st_mode)) return Fail(ELOOP);
  }
  return fd.Release();
}

int Walk(int folder, const Parts& parts, int flags, mode_t mode) {
  if (parts.empty()) return OpenPart(folder, ".", flags, mode);
  Descriptor above(-1);
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    Descriptor next(OpenPart(i == 0 ? folder : above.get(), parts[i],
                             O_PATH | O_DIRECTORY, 0));
    if (next.get() < 0) return -1;
    above = std::move(next);
  }
  const int fd = OpenPart(parts.size() == 1 ? folder : above.get(),
                          parts.back(), flags, mode);
  const int error = errno;
  above = Descriptor(-1);
  return fd >= 0 ? fd : Fail(error);
}

}  // namespace

int OpenBeneath(int folder, const std::string& path, int flags, mode_t mode,
                BeneathCheck check) {
  Parts parts;
  if (absl::StartsWith(path, "/") || absl::StrContains(path, '\0')) {
    return Fail(EINVAL);
  }
  for (const absl::string_view part :
       absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (part == "..") return Fail(EINVAL);
    if (part != ".") parts.emplace_back(part);
  }
  if (check == BeneathCheck::kKernel) {
    const std::string name = parts.empty() ? "." : absl::StrJoin(parts, "/");
    struct open_how how = {};
    // O_NOFOLLOW would let O_PATH open a link itself.
    how.flags = static_cast<uint64_t>((flags & ~O_NOFOLLOW) | O_CLOEXEC);
    how.mode = (flags & O_CREAT) != 0 ? mode : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS;
    const long fd =
        syscall(SYS_openat2, folder, name.c_str(), &how, sizeof(how));
    if (fd >= 0) return static_cast<int>(fd);
    // EAGAIN: something was renamed meanwhile.
    if (errno != ENOSYS && errno != EPERM && errno != EAGAIN) return -1;
  }
  return Walk(folder, parts, flags, mode);
}

}  // namespace comera::worker
