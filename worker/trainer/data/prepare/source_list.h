#ifndef COMERA_WORKER_TRAINER_DATA_PREPARE_SOURCE_LIST_H_
#define COMERA_WORKER_TRAINER_DATA_PREPARE_SOURCE_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace comera::trainer {

// The name of standard input in a list of sources.
inline constexpr char kStandardInput[] = "-";

// A file of a corpus that is to be tokenised.
struct SourceFile {
  std::string path;
  int64_t size_bytes = 0;
  // A digest of path, size and time of change: equal ones are taken for equal
  // contents. Empty for standard input, which is never equal.
  std::string stamp;
};

// The files that `names` name or match, each once, those of a pattern sorted.
// InvalidArgument: a URL, a folder, standard input beside other sources, or
// none at all; NotFound: no such file, or no file matches.
absl::StatusOr<std::vector<SourceFile>> ListSources(
    const std::vector<std::string>& names);

// One digest of all stamps.
std::string StampsDigest(const std::vector<SourceFile>& sources);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_PREPARE_SOURCE_LIST_H_
