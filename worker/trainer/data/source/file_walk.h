#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_FILE_WALK_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_FILE_WALK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::trainer {

struct FoundFile {
  std::string path;           // root/relative_path
  std::string relative_path;  // below its root
  int64_t size = 0;
  int64_t modified_ns = 0;
};

// The regular files below `root` that match one of `globs` (all files when
// there are none), sorted by relative path. A glob with a "/" is matched
// against the relative path, where "*" also matches "/"; others against the
// file name. Symbolic links below the root are not followed, so nothing outside
// is read and no loop is walked; folders that may not be read are left out.
// NotFound: no such folder. InvalidArgument: not a folder, or a glob above 256
// bytes. ResourceExhausted: more than 4 million entries.
absl::StatusOr<std::vector<FoundFile>> FindFiles(
    const std::string& root, const std::vector<std::string>& globs);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_FILE_WALK_H_
