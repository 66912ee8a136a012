// Finds the file that a path names without leaving the folders it may lie in.

#include "worker/data/rooted_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "worker/files/descriptor.h"

namespace comera::worker {
namespace {

// The number of symbolic links that Linux itself follows.
constexpr int kMaxLinks = 40;

using Components = std::deque<std::string>;

FileIdentity Identity(const struct stat& info) {
  return {info.st_dev, info.st_ino};
}

// Splits a path; "" and "." mean nothing in it.
Components Split(const std::string& path) {
  Components components;
  for (auto part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (part != ".") components.emplace_back(part);
  }
  return components;
}

std::string Join(const Components& components) {
  return absl::StrCat("/", absl::StrJoin(components, "/"));
}

// Removes the components of `root` from the front of `components` if they are
// there.
bool Strip(const std::string& root, Components* components) {
  const Components prefix = Split(root);
  if (prefix.size() > components->size() ||
      !std::equal(prefix.begin(), prefix.end(), components->begin())) {
    return false;
  }
  components->erase(components->begin(),
                    components->begin() + static_cast<int>(prefix.size()));
  return true;
}

absl::Status Lost(int error) {
  const std::string reason = strerror(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(reason);
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG:
    case EXDEV:
      return absl::FailedPreconditionError(reason);
    default:
      // The machine or a server of files fails, whatever the path is.
      return absl::UnavailableError(reason);
  }
}

absl::Status Left() {
  return absl::PermissionDeniedError("it leads out of the folders");
}

// Whether the kernel makes up what this file system holds.
absl::StatusOr<bool> IsKernelState(int fd) {
  struct statfs info = {};
  if (fstatfs(fd, &info) != 0) return Lost(errno);
  switch (static_cast<uint32_t>(info.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case SELINUX_MAGIC:
    case DEVPTS_SUPER_MAGIC:
    case PSTOREFS_MAGIC:
    case BPF_FS_MAGIC:
    case NSFS_MAGIC:
    case 0xde5e81e4:  // efivarfs
    case 0x62656570:  // configfs
      return true;
    default:
      return false;
  }
}

// A walk from one root. It ends at a file, or with another path to begin with.
class Walk {
 public:
  explicit Walk(const PathRoot& root) : root_(root) {}

  // Follows `rest`. Returns the file, or sets `again` to the absolute path that
  // a link or ".." led to outside the root.
  absl::StatusOr<std::optional<RootedPath>> Run(Components rest, int* links,
                                                std::string* again) {
    RETURN_IF_ERROR(Enter(AT_FDCWD, root_.resolved, ""));
    while (!rest.empty()) {
      const std::string name = std::move(rest.front());
      rest.pop_front();
      if (!S_ISDIR(steps_.back().info.st_mode)) return Lost(ENOTDIR);
      if (name == "..") {
        if (steps_.size() > 1) {
          steps_.pop_back();
          continue;
        }
        Components above = Split(root_.resolved);
        if (above.empty()) continue;  // "/.." is "/"
        above.pop_back();
        above.insert(above.end(), rest.begin(), rest.end());
        *again = Join(above);
        return std::nullopt;
      }
      RETURN_IF_ERROR(Enter(steps_.back().fd.get(), name, name));
      if (!S_ISLNK(steps_.back().info.st_mode)) continue;
      if (++*links > kMaxLinks) return Lost(ELOOP);
      ASSIGN_OR_RETURN(const std::string target, Target());
      steps_.pop_back();
      Components next = Split(target);
      next.insert(next.end(), rest.begin(), rest.end());
      if (absl::StartsWith(target, "/")) {
        *again = Join(next);
        return std::nullopt;
      }
      rest = std::move(next);
    }
    RootedPath found;
    found.path = Path();
    for (const Step& step : steps_) found.line.push_back(Identity(step.info));
    found.is_folder = S_ISDIR(steps_.back().info.st_mode);
    found.is_kernel_state = kernel_state_;
    return found;
  }

  // Asks the kernel whether `found` is what lies beneath the root.
  absl::Status Confirm(const RootedPath& found, BeneathCheck check) const {
    const std::string below = absl::StrJoin(
        steps_.begin() + 1, steps_.end(), "/",
        [](std::string* out, const Step& step) { *out += step.name; });
    const Descriptor fd(
        OpenBeneath(steps_.front().fd.get(), below, O_PATH, 0, check));
    if (fd.get() < 0) return Lost(errno);
    struct stat info = {};
    if (fstat(fd.get(), &info) != 0 || !(Identity(info) == found.line.back())) {
      return absl::UnavailableError("the files are being changed");
    }
    return absl::OkStatus();
  }

 private:
  struct Step {
    std::string name;
    Descriptor fd;
    struct stat info;
  };

  absl::Status Enter(int folder, const std::string& path,
                     const std::string& name) {
    // A folder is opened for reading where it may be, because O_PATH alone
    // would not mount what is mounted on demand.
    Descriptor fd(openat(folder, path.c_str(),
                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd.get() < 0) {
      fd = Descriptor(
          openat(folder, path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    }
    if (fd.get() < 0) return Lost(errno);
    struct stat info = {};
    if (fstat(fd.get(), &info) != 0) return Lost(errno);
    ASSIGN_OR_RETURN(const bool kernel_state, IsKernelState(fd.get()));
    kernel_state_ = kernel_state_ || kernel_state;
    steps_.push_back({name, std::move(fd), info});
    return absl::OkStatus();
  }

  // What the link that was entered last points to.
  absl::StatusOr<std::string> Target() const {
    std::string target(PATH_MAX, '\0');
    const ssize_t size =
        readlinkat(steps_.back().fd.get(), "", target.data(), target.size());
    if (size < 0) return Lost(errno);
    // Links of proc lead anywhere, whatever they read as.
    if (size == 0 || static_cast<size_t>(size) == target.size() ||
        kernel_state_) {
      return Left();
    }
    target.resize(static_cast<size_t>(size));
    return target;
  }

  std::string Path() const {
    std::string path(absl::StripSuffix(root_.resolved, "/"));
    for (size_t i = 1; i < steps_.size(); ++i) {
      absl::StrAppend(&path, "/", steps_[i].name);
    }
    return path.empty() ? "/" : path;
  }

  const PathRoot& root_;
  // The root, and the folders and the file below it that were entered.
  std::vector<Step> steps_;
  bool kernel_state_ = false;
};

}  // namespace

absl::StatusOr<RootedPath> FindBelow(const std::string& path,
                                     const std::vector<PathRoot>& roots,
                                     BeneathCheck check) {
  std::string name = path;
  int links = 0;
  // Each turn but the first comes from a link, or from ".." out of a root.
  for (int turn = 0; turn <= 2 * kMaxLinks; ++turn) {
    if (name.empty() || name[0] != '/' || name.size() >= PATH_MAX ||
        name.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError("not an absolute path");
    }
    const PathRoot* below = nullptr;
    Components rest;
    for (const PathRoot& root : roots) {
      for (const std::string* spelling : {&root.given, &root.resolved}) {
        Components left = Split(name);
        // The nearest root, so that ".." seldom leaves it.
        if (Strip(*spelling, &left) &&
            (below == nullptr || left.size() < rest.size())) {
          below = &root;
          rest = std::move(left);
        }
      }
    }
    if (below == nullptr) return Left();
    Walk walk(*below);
    std::string again;
    ASSIGN_OR_RETURN(const std::optional<RootedPath> found,
                     walk.Run(std::move(rest), &links, &again));
    if (found) {
      RETURN_IF_ERROR(walk.Confirm(*found, check));
      return *found;
    }
    name = std::move(again);
  }
  return Lost(ELOOP);
}

bool IsSameOrBelow(const std::string& path, const std::string& folder) {
  Components components = Split(path);
  return Strip(folder, &components);
}

}  // namespace comera::worker
