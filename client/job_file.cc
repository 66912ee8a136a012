// Reads job files and resolves the relative paths in them.

#include "client/job_file.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "proto/data_paths.h"
#include "proto/data_url.h"
#include "proto/dataset_names.h"
#include "proto/field_reader.h"
#include "proto/yaml_tree.h"

namespace comera::client {
namespace {

std::string Absolute(const std::string& folder, const std::string& path) {
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

absl::Status Load(const std::string& path, JobFileText* text) {
  ASSIGN_OR_RETURN(const JobFileFormat format, FormatOf(path));
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > kMaxJobFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":1: larger than ", kMaxJobFileBytes, " bytes"));
  }
  ASSIGN_OR_RETURN(const std::string contents, ReadFile(path));
  *text = ReadJobText(contents, path, format);
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
  }
  ResolveDataPaths(absolute.parent_path().string(), &text->spec);
  return text->status;
}

}  // namespace

JobFileText LoadJobFile(const std::string& path) {
  JobFileText text;
  text.status = Load(path, &text);
  return text;
}

absl::StatusOr<v1::JobSpec> ReadJobFile(const std::string& path,
                                        std::vector<std::string>* notes) {
  JobFileText text = LoadJobFile(path);
  if (notes != nullptr) {
    notes->insert(notes->end(), text.notes.begin(), text.notes.end());
  }
  RETURN_IF_ERROR(text.status);
  return std::move(text.spec);
}

absl::Status SetJobField(const std::string& assignment,
                         const std::string& folder, v1::JobSpec* spec,
                         std::vector<std::string>* notes) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--set ", assignment, ": must be FIELD=VALUE"));
  }
  const std::string name = absl::StrCat("--set ", assignment);
  ASSIGN_OR_RETURN(const YamlNodePtr value,
                   ParseYaml(assignment.substr(equals + 1), name));
  RETURN_IF_ERROR(
      ReadField(*value, name, assignment.substr(0, equals), spec, notes));
  ResolveDataPaths(folder, spec);
  return absl::OkStatus();
}

void ResolveDataPaths(const std::string& folder, v1::JobSpec* spec) {
  for (const DataPath& path : DataPaths(spec)) {
    if (IsDatasetReference(*path.path) || HasUrlScheme(*path.path)) continue;
    *path.path = Absolute(folder, *path.path);
  }
}

}  // namespace comera::client
