#ifndef COMERA_WORKER_DATA_ROOTED_PATH_H_
#define COMERA_WORKER_DATA_ROOTED_PATH_H_

#include <sys/types.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/files/open_beneath.h"

namespace comera::worker {

// A folder below which paths may lie. Both names are absolute, without "." and
// "..", and end in "/" only if they are "/".
struct PathRoot {
  // The name that people use, which may lead through symbolic links.
  std::string given;
  // The name without symbolic links.
  std::string resolved;
};

// A file or folder as the kernel knows it, whatever its names are.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  bool operator==(const FileIdentity& other) const {
    return std::tie(device, inode) == std::tie(other.device, other.inode);
  }
};

// A file or folder that exists below a root.
struct RootedPath {
  // Its name without symbolic links.
  std::string path;
  // The root, the folders below it on the way, and the file itself.
  std::vector<FileIdentity> line;
  bool is_folder = false;
  // Whether any step lay in a file system in which the kernel shows its own
  // state (proc, sysfs, cgroup and the like).
  bool is_kernel_state = false;
};

// Finds what an absolute path names, one component after the other and without
// ever leaving the roots: the path as it is written has to begin with a root's
// name, ".." may not step out of that root, and a symbolic link is followed
// only if what it points to lies below a root in its turn. So nobody who cannot
// write below a root decides where a path leads. At the end the kernel is asked
// for the same file beneath the root, with no link on the way.
//
// PermissionDenied: the path leaves the roots. NotFound: nothing of that name
// is below the root, or a folder on the way is none. InvalidArgument: not
// absolute, too long, or it holds a NUL byte. FailedPrecondition: a folder on
// the way may not be searched, or there are too many links. Unavailable: the
// files changed meanwhile, or the machine fails to read them.
absl::StatusOr<RootedPath> FindBelow(
    const std::string& path, const std::vector<PathRoot>& roots,
    BeneathCheck check = BeneathCheck::kKernel);

// Whether the absolute name `path` is `folder` or lies below it, by the names
// alone; neither may have "." or ".." in it.
bool IsSameOrBelow(const std::string& path, const std::string& folder);

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_ROOTED_PATH_H_
