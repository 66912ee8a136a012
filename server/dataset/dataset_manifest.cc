// Reads and writes the list of a version's files, and searches it.
#include "server/dataset/dataset_manifest.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/dataset_names.h"

namespace comera::server {
namespace {

bool Before(const v1::DatasetFile& file, const std::string& path) {
  return file.path() < path;
}

// The first file whose path is not below `path`.
google::protobuf::RepeatedPtrField<v1::DatasetFile>::const_iterator LowerBound(
    const v1::DatasetManifest& manifest, const std::string& path) {
  return std::lower_bound(manifest.files().begin(), manifest.files().end(),
                          path, Before);
}

bool HasMatch(const v1::DatasetManifest& manifest, const std::string& pattern) {
  return std::any_of(manifest.files().begin(), manifest.files().end(),
                     [&](const v1::DatasetFile& file) {
                       return MatchesFilePattern(pattern, file.path());
                     });
}

absl::Status CheckFile(const v1::DatasetFile& file, int index) {
  const std::string field = absl::StrCat("files[", index, "].");
  if (!IsDatasetPath(file.path())) {
    return absl::InvalidArgumentError(absl::StrCat(
        field,
        "path: must be relative, at most 512 bytes, without \".\", "
        "\"..\", empty parts and control characters"));
  }
  if (!IsSha256(file.sha256())) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, "sha256: must be 64 lower-case hexadecimal digits"));
  }
  if (file.size_bytes() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, "size_bytes: must not be negative"));
  }
  return absl::OkStatus();
}

// Checks a list that is sorted by path. Time: that of comparing each path with
// the one before.
absl::Status CheckPaths(const v1::DatasetManifest& manifest) {
  // The files whose paths the current one begins with, shortest first. In a
  // sorted list all that begin with the same bytes stand together, so one that
  // the current path does not begin with is over for good.
  std::vector<std::string_view> beginnings;
  for (const v1::DatasetFile& file : manifest.files()) {
    const std::string_view path = file.path();
    while (!beginnings.empty() &&
           path.substr(0, beginnings.back().size()) != beginnings.back()) {
      beginnings.pop_back();
    }
    for (const std::string_view beginning : beginnings) {
      if (beginning.size() == path.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("files: ", file.path(), " is there twice"));
      }
      if (path[beginning.size()] == '/') {
        return absl::InvalidArgumentError(
            absl::StrCat("files: ", std::string(beginning),
                         " is a file, and the folder of ", file.path()));
      }
    }
    beginnings.push_back(path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::DatasetManifest> MakeManifest(
    const google::protobuf::RepeatedPtrField<v1::DatasetFile>& files,
    const ManifestLimits& limits) {
  if (files.empty()) return absl::InvalidArgumentError("files: missing");
  if (files.size() > limits.max_files) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a dataset of ", files.size(), " files; at most ",
                     limits.max_files, " are possible"));
  }
  v1::DatasetManifest manifest;
  int64_t bytes = 0;
  for (int i = 0; i < files.size(); ++i) {
    if (absl::Status status = CheckFile(files[i], i); !status.ok()) {
      return status;
    }
    if (files[i].size_bytes() > limits.max_bytes - bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a dataset may have at most ", limits.max_bytes, " bytes"));
    }
    bytes += files[i].size_bytes();
    v1::DatasetFile* file = manifest.add_files();
    file->set_path(files[i].path());
    file->set_size_bytes(files[i].size_bytes());
    file->set_sha256(files[i].sha256());
  }
  std::sort(manifest.mutable_files()->begin(), manifest.mutable_files()->end(),
            [](const auto& a, const auto& b) { return a.path() < b.path(); });
  if (absl::Status status = CheckPaths(manifest); !status.ok()) return status;
  return manifest;
}

absl::StatusOr<v1::DatasetManifest> ParseManifest(const std::string& bytes) {
  v1::DatasetManifest manifest;
  if (!manifest.ParseFromString(bytes)) {
    return absl::DataLossError("a dataset's list of files is damaged");
  }
  return manifest;
}

int64_t TotalBytes(const v1::DatasetManifest& manifest) {
  int64_t bytes = 0;
  for (const v1::DatasetFile& file : manifest.files()) {
    bytes += file.size_bytes();
  }
  return bytes;
}

const v1::DatasetFile* FindFile(const v1::DatasetManifest& manifest,
                                const std::string& path) {
  const auto it = LowerBound(manifest, path);
  return it != manifest.files().end() && it->path() == path ? &*it : nullptr;
}

bool HasFolder(const v1::DatasetManifest& manifest, const std::string& path) {
  if (path.empty()) return manifest.files_size() > 0;
  const std::string prefix = path + "/";
  const auto it = LowerBound(manifest, prefix);
  return it != manifest.files().end() &&
         std::string_view(it->path()).substr(0, prefix.size()) == prefix;
}

bool HasPath(const v1::DatasetManifest& manifest, const std::string& path,
             PathKind kind) {
  const bool is_file = FindFile(manifest, path) != nullptr;
  switch (kind) {
    case PathKind::kFile:
      return is_file;
    case PathKind::kFolder:
      return HasFolder(manifest, path);
    case PathKind::kFileOrFolder:
      return is_file || HasFolder(manifest, path);
    case PathKind::kFiles:
      return is_file || (IsFilePattern(path) && HasMatch(manifest, path));
  }
  return false;
}

}  // namespace comera::server
