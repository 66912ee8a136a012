#ifndef COMERA_PROTO_DATA_PATHS_H_
#define COMERA_PROTO_DATA_PATHS_H_

#include <string>
#include <vector>

#include "comera/v1/job.pb.h"

namespace comera {

// A path that a spec names.
struct DataPath {
  // E.g. "data.glue_tsv.train".
  std::string field;
  // In the spec.
  std::string* path;
  // Whether a folder is meant.
  bool folder = false;
};

// All paths of data, tokenizer and initial weights that are not empty. The
// pointers are good as long as the spec is not changed otherwise.
std::vector<DataPath> DataPaths(v1::JobSpec* spec);

}  // namespace comera

#endif  // COMERA_PROTO_DATA_PATHS_H_
