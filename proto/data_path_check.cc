// Checks one data path of a job.

#include "proto/data_path_check.h"

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
  check.Require(path[0] == '/', field,
                "must be an absolute path, or datasets/{dataset}/{file}");
}

}  // namespace comera
