// Whole-file helpers with durable writes.
#ifndef COMERA_COMMON_FILES_H_
#define COMERA_COMMON_FILES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera {

// errno as a Status, "what: text": NotFound, PermissionDenied,
// ResourceExhausted (disk full) or Unavailable.
absl::Status ErrnoStatus(int error, const std::string& what);

// Errors of ErrnoStatus.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes a temporary file beside `path`, fsyncs, renames over `path`, fsyncs
// the folder: after a crash `path` holds the old or the new contents.
// ResourceExhausted: disk full. `mode`: who may read it, from its first byte
// on.
absl::Status WriteFileAtomically(const std::string& path,
                                 std::string_view contents, int mode = 0644);

// mkdir -p.
absl::Status MakeDirectories(const std::string& path);

// Lower-case hexadecimal SHA-256.
std::string Sha256Hex(std::string_view contents);

}  // namespace comera

#endif  // COMERA_COMMON_FILES_H_
