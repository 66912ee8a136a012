#ifndef COMERA_WORKER_DATA_MOUNT_TABLE_H_
#define COMERA_WORKER_DATA_MOUNT_TABLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera::worker {

// The mounts that a process sees, by their names alone: no method touches a
// file system, because one that does not answer would block it. Immutable.
class MountTable {
 public:
  // A table without mounts.
  MountTable() = default;

  // Reads a file of the form of /proc/self/mountinfo. Unavailable: it cannot be
  // read.
  static absl::StatusOr<MountTable> Read(const std::string& path);
  // Takes the text of such a file; malformed lines are passed over.
  static MountTable Parse(absl::string_view text);

  // All names under which mounts show what the absolute path `path`, which has
  // no symbolic links, or something below it stands for. `path` itself is among
  // them if a mount holds it.
  std::vector<std::string> NamesOf(const std::string& path) const;

  // The mount points at which the kernel shows its own state (proc, sysfs and
  // the like) or its devices.
  const std::vector<std::string>& kernel_state() const { return kernel_state_; }

 private:
  struct Mount {
    // "major:minor" of the file system.
    std::string device;
    // The folder of the file system that is shown, and where: both begin with
    // "/" and have no empty parts.
    std::string root;
    std::string point;
  };

  std::vector<Mount> mounts_;
  std::vector<std::string> kernel_state_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_MOUNT_TABLE_H_
