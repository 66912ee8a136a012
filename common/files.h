// Helpers that read whole files and write them durably.
#ifndef COMERA_COMMON_FILES_H_
#define COMERA_COMMON_FILES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera {

// Turns errno into a Status, "what: text": NotFound, PermissionDenied,
// ResourceExhausted (disk full) or Unavailable.
absl::Status ErrnoStatus(int error, const std::string& what);

// Returns the whole file; errors of ErrnoStatus.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes a temporary file beside `path`, fsyncs it, renames it to `path` and
// fsyncs the folder: after a crash `path` holds either the old or the new
// contents. ResourceExhausted: disk full. `mode` holds for the file from its
// first byte on.
absl::Status WriteFileAtomically(const std::string& path,
                                 std::string_view contents, int mode = 0644);

// Makes the folder and its parents where they are missing.
absl::Status MakeDirectories(const std::string& path);

// Whether nobody but this process's user, and root, can open or close the
// existing folder to others. FailedPrecondition: it belongs to somebody else,
// who could read and replace all that is put there.
absl::Status CheckOwnFolder(const std::string& path);

// The SHA-256 of the contents in lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view contents);

}  // namespace comera

#endif  // COMERA_COMMON_FILES_H_
