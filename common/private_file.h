#ifndef COMERA_COMMON_PRIVATE_FILE_H_
#define COMERA_COMMON_PRIVATE_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace comera {

// Reads a file that holds a secret, of at most 64 KiB. FailedPrecondition:
// others than its owner and group may use it, or its group may write to it.
// InvalidArgument: it is too large or no regular file. NotFound and others of
// ErrnoStatus. Errors never hold the contents.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path);

}  // namespace comera

#endif  // COMERA_COMMON_PRIVATE_FILE_H_
