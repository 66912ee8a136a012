// Names of datasets, of their versions, and of files in them:
// `datasets/{dataset}[@{number}][/{path}]`.
#ifndef COMERA_PROTO_DATASET_NAMES_H_
#define COMERA_PROTO_DATASET_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace comera {

struct DatasetReference {
  std::string dataset;
  // 0: the newest.
  int64_t version = 0;
  // Of a file or folder; empty: all.
  std::string path;
};

// Whether a path in a job is meant as one of a dataset: no absolute path, and
// begins with "datasets/".
bool IsDatasetReference(std::string_view path);

// Nothing if malformed.
std::optional<DatasetReference> ParseDatasetReference(std::string_view text);

// The part of a reference before the path.
std::string DatasetPart(const DatasetReference& reference);

std::string DatasetName(std::string_view dataset);
std::string DatasetVersionName(std::string_view dataset, int64_t version);

// Whether `path` may be a file's path in a dataset: relative, at most 512 bytes
// and 32 folders, no empty, "." or ".." part, no control character. Nothing
// else may pass: such paths become file names.
bool IsDatasetPath(std::string_view path);

// Whether `text` is a lower-case hexadecimal SHA-256.
bool IsSha256(std::string_view text);

}  // namespace comera

#endif  // COMERA_PROTO_DATASET_NAMES_H_
