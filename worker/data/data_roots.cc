// Checks that the paths of a job's data lie below the folders that the operator
// allows.

#include "worker/data/data_roots.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/data_paths.h"
#include "proto/dataset_names.h"

namespace comera::worker {
namespace {

// The path without symbolic links; empty if there is no such file. A NUL is
// refused because it would end the path for the system but not for us.
std::string RealPath(const std::string& path) {
  if (path.find('\0') != std::string::npos || path.size() >= PATH_MAX) {
    return "";
  }
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return "";
  const std::string result = resolved;
  free(resolved);
  return result;
}

// What must lie below a root: the path, or the folder in which all matches of
// a pattern are, since no symbolic link is followed behind it.
std::string Place(const DataPath& path) {
  if (path.kind != PathKind::kFiles || !IsFilePattern(*path.path)) {
    return *path.path;
  }
  const size_t wildcard = path.path->find_first_of("*?[");
  return path.path->substr(0, path.path->rfind('/', wildcard) + 1);
}

}  // namespace

absl::StatusOr<DataRoots> DataRoots::Create(
    const std::vector<std::string>& folders) {
  DataRoots roots;
  for (const std::string& folder : folders) {
    std::string resolved = RealPath(folder);
    struct stat info = {};
    if (resolved.empty() || stat(resolved.c_str(), &info) != 0 ||
        !S_ISDIR(info.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("data_root: ", folder, " is no folder"));
    }
    if (resolved.back() != '/') resolved += '/';
    roots.roots_.push_back(std::move(resolved));
  }
  return roots;
}

absl::Status DataRoots::Check(const v1::JobSpec& spec) const {
  if (roots_.empty()) return absl::OkStatus();
  v1::JobSpec copy = spec;
  for (const DataPath& path : DataPaths(&copy)) {
    if (IsDatasetReference(*path.path)) continue;
    const std::string resolved = RealPath(Place(path));
    const bool below =
        std::any_of(roots_.begin(), roots_.end(), [&](const std::string& root) {
          return absl::StartsWith(resolved + "/", root);
        });
    // The message is the same whether the file is missing or not allowed, so
    // that jobs cannot find out what else is on the machine.
    if (!below) {
      return absl::InvalidArgumentError(absl::StrCat(
          path.field, ": ", absl::CEscape(path.path->substr(0, 200)),
          " is not below a folder that this worker offers (--data_root)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace comera::worker
