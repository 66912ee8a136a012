#ifndef COMERA_PROTO_DATA_PATHS_H_
#define COMERA_PROTO_DATA_PATHS_H_

#include <string>
#include <vector>

#include "comera/v1/job.pb.h"

namespace comera {

// What a path may stand for.
enum class PathKind {
  kFile,
  kFolder,
  kFileOrFolder,
  // A file, or all that match a pattern (proto/dataset_names.h).
  kFiles,
};

// A path in a job's specification.
struct DataPath {
  // The field's name, e.g. "data.glue_tsv.train".
  std::string field;
  // Points into the specification.
  std::string* path;
  PathKind kind = PathKind::kFile;
};

// All paths of data, tokenizer, initial weights and program that are not empty.
// The pointers stay valid as long as nothing else in the spec is changed.
std::vector<DataPath> DataPaths(v1::JobSpec* spec);

}  // namespace comera

#endif  // COMERA_PROTO_DATA_PATHS_H_
