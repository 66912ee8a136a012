// Checks one data path of a job.

#include "proto/data_path_check.h"

#include "proto/dataset_names.h"

namespace comera {

void CheckDataPath(const std::string& field, const std::string& path,
                   bool folder, SpecChecker& check) {
  if (path.empty()) {
    return check.Add(field,
                     "is missing: an absolute path on the workers, or "
                     "datasets/{dataset}/{file}");
  }
  if (IsDatasetReference(path)) {
    const auto reference = ParseDatasetReference(path);
    return check.Require(
        reference && (folder || !reference->path.empty()), field,
        folder ? "must be datasets/{dataset}[@{version}][/{folder}]"
               : "must be datasets/{dataset}[@{version}]/{file}");
  }
  check.Require(path[0] == '/', field,
                "must be an absolute path, or datasets/{dataset}/{file}");
}

}  // namespace comera
