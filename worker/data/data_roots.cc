// Checks that the paths of a job's data lie below the folders that the operator
// offers, and not in what no job may read.

#include "worker/data/data_roots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "proto/dataset_names.h"
#include "worker/data/mount_table.h"

namespace comera::worker {
namespace {

constexpr size_t kMaxShownBytes = 200;
// The entries of a folder with shards or a model.
constexpr int kMaxEntries = 1'000'000;
// The fields whose folders are not walked: files of known names are opened in
// them, whatever links these are.
constexpr char kShardsField[] = "data.token_shards.";
constexpr char kProgramFields[] = "program.";
constexpr char kWeightsField[] = "initial_weights.safetensors";

// An absolute name without ".", ".." and doubled slashes.
std::string Normal(const std::string& path) {
  std::error_code error;
  std::string normal =
      std::filesystem::absolute(path, error).lexically_normal().string();
  if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

// The name without symbolic links, as far as the folders exist.
std::string Resolved(const std::string& path) {
  std::error_code error;
  const std::string resolved =
      std::filesystem::weakly_canonical(path, error).string();
  return error ? Normal(path) : Normal(resolved);
}

// What a path is looked up by: itself, or the folder in which all matches of a
// pattern are, since no symbolic link is followed behind it. `rest` receives
// the pattern.
std::string Place(const DataPath& path, std::string* rest) {
  if (path.kind != PathKind::kFiles || !IsFilePattern(*path.path)) {
    return *path.path;
  }
  const size_t wildcard = path.path->find_first_of("*?[");
  const size_t end = path.path->rfind('/', wildcard) + 1;
  *rest = path.path->substr(end);
  return path.path->substr(0, end);
}

// The first `parts` of the components of `path`, or all of them.
std::string FirstParts(const std::string& path, size_t parts) {
  std::vector<std::string> components =
      absl::StrSplit(path, '/', absl::SkipEmpty());
  components.resize(std::min(parts, components.size()));
  return absl::StrJoin(components, "/");
}

size_t Parts(const std::string& path) {
  return std::vector<std::string>(absl::StrSplit(path, '/', absl::SkipEmpty()))
      .size();
}

// Whether the pattern, which begins in `place`, may match `file` or, if that is
// a folder, something below it.
bool MayReach(const std::string& place, const std::string& pattern,
              const std::string& file, bool is_folder) {
  if (!IsSameOrBelow(file, place)) return false;
  const std::string below = file.substr(place == "/" ? 0 : place.size());
  const size_t parts = Parts(below);
  return (is_folder ? parts <= Parts(pattern) : parts == Parts(pattern)) &&
         MatchesFilePattern(FirstParts(pattern, parts),
                            FirstParts(below, parts));
}

}  // namespace

struct DataRoots::Refused {
  std::string given;
  std::string resolved;
  std::optional<FileIdentity> identity;
  bool is_folder = false;

  // Its names by all mounts, `resolved` among them.
  std::vector<std::string> names;

  bool Holds(const RootedPath& found) const {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) {
                         return IsSameOrBelow(found.path, name);
                       }) ||
           (identity && std::find(found.line.begin(), found.line.end(),
                                  *identity) != found.line.end());
  }
};

struct DataRoots::Present {
  std::vector<PathRoot> roots;
  // The folders of the datasets that the job names.
  std::vector<PathRoot> views;
  std::vector<Refused> refused;
  // The mount points with kernel state.
  std::vector<std::string> kernel_state;
};

absl::StatusOr<DataRoots> DataRoots::Create(const Options& options) {
  DataRoots roots;
  for (const char* kernel : {"/proc", "/sys", "/dev"}) {
    roots.own_.push_back(kernel);
  }
  for (const std::string& own : options.own) {
    if (!own.empty()) roots.own_.push_back(Normal(own));
  }
  if (!options.views.empty()) {
    roots.views_ = Normal(options.views);
  }
  roots.mount_info_ = options.mount_info;
  const std::vector<Refused> refused = roots.FindRefused();
  for (const std::string& folder : options.folders) {
    const auto bad = [&](const std::string& why) {
      return absl::InvalidArgumentError(
          absl::StrCat("--data_root=", folder, ": ", why));
    };
    std::error_code error;
    const bool is_folder =
        !folder.empty() && std::filesystem::is_directory(folder, error);
    if (!is_folder) return bad("not a folder");
    PathRoot root;
    root.given = Normal(folder);
    root.resolved = Normal(std::filesystem::canonical(folder, error).string());
    if (error) return bad("not a folder");
    const auto found = FindBelow(root.resolved, {{"/", "/"}});
    if (!found.ok()) return bad(std::string(found.status().message()));
    for (const Refused& one : refused) {
      if (found->is_kernel_state || one.Holds(*found)) {
        return bad(
            "lies in what no job may read: the worker's own files, "
            "/proc, /sys or /dev");
      }
    }
    roots.roots_.push_back(std::move(root));
  }
  return roots;
}

std::vector<DataRoots::Refused> DataRoots::FindRefused() const {
  std::vector<Refused> refused;
  for (const std::string& path : own_) {
    Refused one;
    one.given = path;
    one.resolved = Resolved(path);
    struct stat info = {};
    if (stat(path.c_str(), &info) == 0) {
      one.identity = FileIdentity{info.st_dev, info.st_ino};
      one.is_folder = S_ISDIR(info.st_mode);
    }
    one.names.push_back(one.resolved);
    refused.push_back(std::move(one));
  }
  return refused;
}

bool DataRoots::Concerns(const v1::JobSpec& spec) {
  v1::JobSpec copy = spec;
  return !DataPaths(&copy).empty();
}

absl::StatusOr<DataRoots::Present> DataRoots::Inspect() const {
  Present present;
  present.refused = FindRefused();
  if (roots_.empty()) return present;
  // Members open paths by name, so a link on the way to a root counts as it is
  // now. A root that is gone has its old name, under which nothing is found.
  for (const PathRoot& root : roots_) {
    std::error_code error;
    const std::string resolved =
        std::filesystem::canonical(root.given, error).string();
    present.roots.push_back(
        {root.given, error ? root.resolved : Normal(resolved)});
  }
  ASSIGN_OR_RETURN(const MountTable mounts, MountTable::Read(mount_info_));
  for (Refused& one : present.refused) {
    for (std::string& name : mounts.NamesOf(one.resolved)) {
      one.names.push_back(std::move(name));
    }
  }
  present.kernel_state = mounts.kernel_state();
  return present;
}

absl::Status DataRoots::Check(
    const v1::JobSpec& spec,
    const google::protobuf::RepeatedPtrField<v1::DatasetPin>& pins) const {
  v1::JobSpec copy = spec;
  const std::vector<DataPath> paths = DataPaths(&copy);
  if (paths.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Present present, Inspect());
  for (const v1::DatasetPin& pin : pins) {
    if (views_.empty() || !IsSha256(pin.digest())) continue;
    present.views.push_back(
        {absl::StrCat(views_, "/", pin.digest()),
         absl::StrCat(Resolved(views_), "/", pin.digest())});
  }
  for (const DataPath& path : paths) {
    const absl::Status status = CheckPath(path, present);
    if (status.ok()) continue;
    // The job is at fault unless the machine is.
    return absl::Status(
        absl::IsUnavailable(status) ? status.code()
                                    : absl::StatusCode::kInvalidArgument,
        absl::StrCat(path.field, ": ",
                     absl::CEscape(path.path->substr(0, kMaxShownBytes)), ": ",
                     status.message()));
  }
  return absl::OkStatus();
}

absl::Status DataRoots::CheckPath(const DataPath& path,
                                  const Present& present) const {
  // The message is the same whether a file is missing or not allowed, so that
  // jobs cannot find out what else is on the machine.
  const absl::Status outside = absl::PermissionDeniedError(
      roots_.empty()
          ? "this worker lets jobs read uploaded datasets only; upload it "
            "(comera datasets upload), or have the operator start the worker "
            "with --data_root=FOLDER"
          : "not below a folder that this worker lets jobs read; upload it "
            "(comera datasets upload), or have the operator add its folder "
            "with --data_root=FOLDER");
  std::string pattern;
  const std::string place = Place(path, &pattern);
  // A dataset's files are below the daemon's folder, so they come first.
  const absl::StatusOr<RootedPath> in_view = FindBelow(place, present.views);
  if (in_view.ok()) return absl::OkStatus();
  const absl::StatusOr<RootedPath> found = FindBelow(place, present.roots);
  if (absl::IsPermissionDenied(found.status())) return outside;
  if (!found.ok()) {
    // Inside a root jobs may know what is missing, but not inside what is
    // refused there.
    const std::string would_be = Resolved(place);
    for (const Refused& one : present.refused) {
      if (IsSameOrBelow(Normal(place), one.given) ||
          IsSameOrBelow(would_be, one.resolved)) {
        return outside;
      }
    }
    return found.status();
  }
  if (found->is_kernel_state) return outside;
  const auto reaches = [&](const std::string& name, bool is_folder) {
    return pattern.empty()
               ? found->is_folder && IsSameOrBelow(name, found->path)
               : MayReach(found->path, pattern, name, is_folder);
  };
  bool reached =
      std::any_of(present.kernel_state.begin(), present.kernel_state.end(),
                  [&](const std::string& name) { return reaches(name, true); });
  for (const Refused& one : present.refused) {
    if (one.Holds(*found)) return outside;
    if (!one.identity) continue;
    reached = reached || std::any_of(one.names.begin(), one.names.end(),
                                     [&](const std::string& name) {
                                       return reaches(name, one.is_folder);
                                     });
  }
  if (reached) {
    return absl::PermissionDeniedError(
        "what no job may read lies below it (the worker's own files, /proc, "
        "/sys or /dev); name the folders beside that");
  }
  // A program's folders are readable to it as a whole.
  if (absl::StartsWith(path.field, kShardsField) ||
      (absl::StartsWith(path.field, kProgramFields) && found->is_folder)) {
    return CheckLinksIn(found->path, present,
                        [](absl::string_view) { return true; });
  }
  if (path.field == kWeightsField) {
    // A model's other files lie beside the one that is named.
    const std::string folder =
        found->is_folder
            ? found->path
            : std::filesystem::path(found->path).parent_path().string();
    return CheckLinksIn(folder, present, [](absl::string_view name) {
      return absl::EndsWith(name, ".safetensors") ||
             absl::EndsWith(name, ".json");
    });
  }
  return absl::OkStatus();
}

absl::Status DataRoots::CheckLinksIn(
    const std::string& folder, const Present& present,
    const std::function<bool(absl::string_view)>& is_read) const {
  DIR* const dir = opendir(folder.c_str());
  if (dir == nullptr) {
    const std::string reason = strerror(errno);
    return errno == EACCES ? absl::FailedPreconditionError(reason)
                           : absl::UnavailableError(reason);
  }
  const auto closer = absl::MakeCleanup([dir] { closedir(dir); });
  int entries = 0;
  while (const dirent* entry = readdir(dir)) {
    if (++entries > kMaxEntries) {
      return absl::FailedPreconditionError(
          absl::StrCat("more than ", kMaxEntries, " entries"));
    }
    const std::string name = entry->d_name;
    // Most file systems say in the folder itself what is a link.
    if (!is_read(name) ||
        (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)) {
      continue;
    }
    struct stat info = {};
    if (fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return absl::UnavailableError(strerror(errno));
    }
    if (!S_ISLNK(info.st_mode)) continue;
    const auto found =
        FindBelow(absl::StrCat(folder, "/", name), present.roots);
    if (absl::IsUnavailable(found.status())) return found.status();
    if (absl::IsNotFound(found.status())) continue;
    const bool allowed =
        found.ok() && !found->is_kernel_state &&
        std::none_of(present.refused.begin(), present.refused.end(),
                     [&](const Refused& one) { return one.Holds(*found); });
    if (!allowed) {
      return absl::PermissionDeniedError(
          absl::StrCat("its link ", absl::CEscape(name),
                       " does not lead to a file that jobs may read"));
    }
  }
  return absl::OkStatus();
}

}  // namespace comera::worker
