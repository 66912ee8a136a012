// Reads the table of mounts, and finds the other names that mounts give to a
// folder.

#include "worker/data/mount_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "worker/data/rooted_path.h"

namespace comera::worker {
namespace {

constexpr absl::string_view kKernelTypes[] = {
    "binfmt_misc", "bpf",    "cgroup",    "cgroup2",    "configfs",
    "debugfs",     "devpts", "devtmpfs",  "efivarfs",   "fusectl",
    "mqueue",      "nsfs",   "proc",      "pstore",     "resctrl",
    "rpc_pipefs",  "nfsd",   "selinuxfs", "securityfs", "smackfs",
    "sysfs",       "tracefs"};

// Decodes "\040" and the like, which stand for spaces and line ends.
std::string Decoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '7'
                 ? text[at] - '0'
                 : -1;
    };
    if (text[i] == '\\' && digit(i + 1) >= 0 && digit(i + 2) >= 0 &&
        digit(i + 3) >= 0) {
      decoded.push_back(static_cast<char>(64 * digit(i + 1) + 8 * digit(i + 2) +
                                          digit(i + 3)));
      i += 3;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

// The name without what "//" and "/." add to it. The kernel writes "//deleted"
// behind the name of a folder that is gone.
std::string Normal(const std::string& path) {
  std::string normal;
  for (const absl::string_view part :
       absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (part != ".") absl::StrAppend(&normal, "/", part);
  }
  return normal.empty() ? "/" : normal;
}

// What `path`, which is `folder` or lies below it, has behind it: "" or
// "/a/b".
std::string Behind(const std::string& path, const std::string& folder) {
  return path == folder ? "" : path.substr(folder == "/" ? 0 : folder.size());
}

std::string Joined(const std::string& folder, const std::string& behind) {
  if (behind.empty()) return folder;
  return folder == "/" ? behind : absl::StrCat(folder, behind);
}

}  // namespace

absl::StatusOr<MountTable> MountTable::Read(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return absl::UnavailableError("the machine's mounts cannot be read");
  }
  return Parse(*text);
}

// A line is "id parent major:minor root point options [optional...] - type
// ...".
MountTable MountTable::Parse(absl::string_view text) {
  MountTable table;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> fields =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash - fields.begin() < 6 || std::distance(dash, fields.end()) < 2) {
      continue;
    }
    Mount mount{fields[2], Normal(Decoded(fields[3])),
                Normal(Decoded(fields[4]))};
    const std::string& type = *(dash + 1);
    if (std::find(std::begin(kKernelTypes), std::end(kKernelTypes), type) !=
        std::end(kKernelTypes)) {
      table.kernel_state_.push_back(mount.point);
    }
    table.mounts_.push_back(std::move(mount));
  }
  return table;
}

std::vector<std::string> MountTable::NamesOf(const std::string& path) const {
  // The mount that holds the path; a later one hides those before it.
  const Mount* holder = nullptr;
  for (const Mount& mount : mounts_) {
    if (IsSameOrBelow(path, mount.point) &&
        (holder == nullptr || mount.point.size() >= holder->point.size())) {
      holder = &mount;
    }
  }
  std::vector<std::string> names;
  if (holder == nullptr) return names;
  // Its name within the file system.
  const std::string inner = Joined(holder->root, Behind(path, holder->point));
  for (const Mount& mount : mounts_) {
    if (mount.device != holder->device) continue;
    if (IsSameOrBelow(inner, mount.root)) {
      names.push_back(Joined(mount.point, Behind(inner, mount.root)));
    } else if (IsSameOrBelow(mount.root, inner)) {
      names.push_back(mount.point);
    }
  }
  return names;
}

}  // namespace comera::worker
