// Fetches what a job reads of datasets into a folder of its own.

#include "client/cli/session/dataset_copies.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "proto/data_paths.h"
#include "proto/dataset_names.h"

namespace comera::client {

absl::StatusOr<std::unique_ptr<DatasetCopies>> DatasetCopies::Fetch(
    v1::JobSpec* spec, DatasetClient* client) {
  std::error_code error;
  ASSIGN_OR_RETURN(auto folder,
                   TemporaryFolder::Create(
                       std::filesystem::temp_directory_path(error).string()));
  std::unique_ptr<DatasetCopies> copies(new DatasetCopies(std::move(folder)));
  for (const DataPath& path : DataPaths(spec)) {
    if (!IsDatasetReference(*path.path)) continue;
    RETURN_IF_ERROR(copies->FetchPath(path.field, path.path, client));
  }
  return copies;
}

absl::Status DatasetCopies::FetchPath(const std::string& field,
                                      std::string* path,
                                      DatasetClient* client) {
  const auto reference = ParseDatasetReference(*path);
  if (!reference) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": must be datasets/{dataset}[@{number}][/{path}]"));
  }
  const std::string part = DatasetPart(*reference);
  ASSIGN_OR_RETURN(const std::vector<v1::DatasetFile> files,
                   client->ListFiles(part));
  const std::string& wanted = reference->path;
  bool found = false;
  for (const v1::DatasetFile& file : files) {
    // Paths become file names here.
    if (!IsDatasetPath(file.path())) {
      return absl::DataLossError(
          absl::StrCat(part, " has a file with an impossible name"));
    }
    if (!wanted.empty() && file.path() != wanted &&
        !absl::StartsWith(file.path(), wanted + "/") &&
        !MatchesFilePattern(wanted, file.path())) {
      continue;
    }
    found = true;
    const std::string copy =
        absl::StrCat(folder_->path(), "/", part, "/", file.path());
    if (std::filesystem::exists(copy)) continue;
    RETURN_IF_ERROR(MakeDirectories(copy.substr(0, copy.rfind('/'))));
    RETURN_IF_ERROR(client->Download(file, copy));
  }
  if (!found) {
    return absl::NotFoundError(
        absl::StrCat(field, ": ", *path, ": the dataset has no such file"));
  }
  *path = absl::StrCat(folder_->path(), "/", part, wanted.empty() ? "" : "/",
                       wanted);
  return absl::OkStatus();
}

bool ReadsDatasets(v1::JobSpec spec) {
  const std::vector<DataPath> paths = DataPaths(&spec);
  return std::any_of(paths.begin(), paths.end(), [](const DataPath& path) {
    return IsDatasetReference(*path.path);
  });
}

}  // namespace comera::client
