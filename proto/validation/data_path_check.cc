// Checks one data path of a job.

#include "proto/validation/data_path_check.h"

#include "absl/strings/str_cat.h"
#include "proto/data_url.h"
#include "proto/dataset_names.h"

namespace comera {
namespace {

// How a path of this kind in a dataset is written.
const char* DatasetForm(PathKind kind) {
  switch (kind) {
    case PathKind::kFile:
      return "must be datasets/{dataset}[@{version}]/{file}";
    case PathKind::kFolder:
      return "must be datasets/{dataset}[@{version}][/{folder}]";
    case PathKind::kFileOrFolder:
      return "must be datasets/{dataset}[@{version}][/{file or folder}]";
    case PathKind::kFiles:
      return "must be datasets/{dataset}[@{version}]/{file or pattern}";
  }
  return "";
}

}  // namespace

void CheckDataPath(const std::string& field, const std::string& path,
                   PathKind kind, SpecChecker& check) {
  if (path.empty()) {
    return check.Add(field,
                     "is missing: an absolute path on the workers, or "
                     "datasets/{dataset}/{file}");
  }
  if (IsDatasetReference(path)) {
    const auto reference = ParseDatasetReference(path);
    const bool whole_dataset =
        kind == PathKind::kFolder || kind == PathKind::kFileOrFolder;
    return check.Require(
        reference && (whole_dataset || !reference->path.empty()), field,
        DatasetForm(kind));
  }
  if (HasUrlScheme(path)) {
    const absl::Status status = ParseDataUrl(path).status();
    if (!status.ok()) {
      return check.Add(field,
                       absl::StrCat("is no URL of data: ", status.message()));
    }
    return check.Require(kind != PathKind::kFolder, field,
                         "must be a folder on the workers or in a dataset, "
                         "but a URL names one file");
  }
  check.Require(path[0] == '/', field,
                "must be an absolute path, datasets/{dataset}/{file}, or a URL "
                "that begins with https:// or s3://");
}

}  // namespace comera
