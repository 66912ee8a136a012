// Downloads a model's files after checking their names.

#include "client/cli/verbs/model_download.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/artifact_file.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::client {

namespace {

namespace fs = std::filesystem;

absl::Status HasAnother(const std::string& directory, const std::string& file) {
  return absl::FailedPreconditionError(absl::StrCat(
      directory, " has another model: its ", file,
      " differs; choose another folder, or overwrite it with --force"));
}

}  // namespace

bool IsThere(const std::string& path, const v1::ArtifactFile& file) {
  std::error_code error;
  if (fs::file_size(path, error) != static_cast<uintmax_t>(file.size_bytes()) ||
      error) {
    return false;
  }
  const absl::StatusOr<std::string> contents = ReadFile(path);
  return contents.ok() && Sha256Hex(*contents) == file.sha256();
}

absl::Status DownloadModel(TrainingClient& client, const v1::Artifact& model,
                           const std::string& directory, bool overwrite) {
  RETURN_IF_ERROR(MakeDirectories(directory));
  std::vector<const v1::ArtifactFile*> missing;
  // All are looked at before the first one changes.
  for (const v1::ArtifactFile& file : model.files()) {
    if (!IsPlainFileName(file.path())) {
      return absl::DataLossError(
          absl::StrCat(model.name(), " names a file that is none"));
    }
    const std::string path = absl::StrCat(directory, "/", file.path());
    if (IsThere(path, file)) continue;
    std::error_code error;
    if (!overwrite && fs::exists(fs::symlink_status(path, error))) {
      return HasAnother(directory, file.path());
    }
    missing.push_back(&file);
  }
  for (const v1::ArtifactFile* file : missing) {
    RETURN_IF_ERROR(client.DownloadArtifact(
        model.name(), *file, absl::StrCat(directory, "/", file->path())));
  }
  return absl::OkStatus();
}

absl::Status CheckModelFolder(const std::string& directory, bool overwrite) {
  fs::path folder = fs::path(directory).lexically_normal();
  std::error_code error;
  if (!overwrite && fs::exists(folder / "config.json", error)) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory,
        " has a model already; choose another folder, or overwrite it with "
        "--force"));
  }
  while (!fs::exists(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  if (!fs::is_directory(folder, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model cannot be put into ", directory, ": ",
                     folder.string(), " is no folder"));
  }
  // Rights alone do not tell: nobody makes a folder in /proc.
  std::string trial = (folder / ".comera-XXXXXX").string();
  if (mkdtemp(trial.data()) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model cannot be put into ", directory, ": ",
                     folder.string(), ": ", std::strerror(errno)));
  }
  rmdir(trial.c_str());
  return absl::OkStatus();
}

}  // namespace comera::client
