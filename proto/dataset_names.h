// Formats and parses the names of datasets, their versions, and files in them:
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
  // The version's number; 0 for the newest.
  int64_t version = 0;
  // The path of a file or folder; empty for the whole dataset.
  std::string path;
};

// Whether a path in a job refers to a dataset, i.e. begins with "datasets/".
bool IsDatasetReference(std::string_view path);

// Returns nothing if the text is malformed.
std::optional<DatasetReference> ParseDatasetReference(std::string_view text);

// The part of a reference before the path.
std::string DatasetPart(const DatasetReference& reference);

std::string DatasetName(std::string_view dataset);
std::string DatasetVersionName(std::string_view dataset, int64_t version);

// Whether `path` may be the path of a file in a dataset: relative, at most 512
// bytes and 32 folders, no empty, "." or ".." part, no control character. Such
// paths become file names, so nothing else may pass.
bool IsDatasetPath(std::string_view path);

// Whether `path` is a pattern: it holds one of "*?[".
bool IsFilePattern(std::string_view path);

// Whether a file of a dataset matches a pattern, in the manner of glob(3): "*",
// "?" and "[...]" stand for characters within one part of a path, never for
// "/", nor for a period at a part's beginning; a part also matches itself.
bool MatchesFilePattern(std::string_view pattern, std::string_view path);

// Whether `text` is a lower-case hexadecimal SHA-256.
bool IsSha256(std::string_view text);

}  // namespace comera

#endif  // COMERA_PROTO_DATASET_NAMES_H_
