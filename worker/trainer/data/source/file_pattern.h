#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_FILE_PATTERN_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_FILE_PATTERN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace comera::trainer {

// The regular files whose paths match `pattern`, sorted. As of glob(3), "*",
// "?" and "[...]" stand for characters within one part of a path, never for
// "/", nor for a period at a part's beginning; a part also matches itself.
// Symbolic links are followed in the folder before the first part with such a
// character only, so nothing outside that folder is read; folders that may not
// be read hold no match. InvalidArgument: a part above 256 bytes.
// ResourceExhausted: more than 4 million entries.
absl::StatusOr<std::vector<std::string>> FindMatches(
    const std::string& pattern);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_FILE_PATTERN_H_
