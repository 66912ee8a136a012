// Closes folders to others.

#include "client/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

}  // namespace

absl::Status MakePrivateFolder(const std::string& path, bool own) {
  const std::string parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) RETURN_IF_ERROR(MakeDirectories(parent));
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "mkdir " + path);
  }
  RETURN_IF_ERROR(CheckOwnFolder(path));
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISDIR(info.st_mode)) {
    return absl::NotFoundError(absl::StrCat(path, " is not a folder"));
  }
  if ((info.st_mode & kOthers) == 0) return absl::OkStatus();
  std::error_code error;
  const bool closable = own || std::filesystem::is_empty(path, error);
  // A sticky folder is one that users share, such as /tmp.
  if ((info.st_mode & S_ISVTX) != 0 || !closable) {
    return absl::FailedPreconditionError(absl::StrCat(
        path,
        " holds other things and is open to other users: name a folder "
        "of its own, or close this one with `chmod 700 ",
        path, "`"));
  }
  if (chmod(path.c_str(), 0700) != 0) {
    return ErrnoStatus(errno, absl::StrCat("chmod 700 ", path));
  }
  return absl::OkStatus();
}

}  // namespace comera::client
