#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_READ_LIMITED_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_READ_LIMITED_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::trainer {

// Opens a regular file for reading: never waits (a FIFO), never reads a device.
// NotFound, PermissionDenied, InvalidArgument (not a regular file),
// Unavailable. The caller closes the descriptor. `follow`: also through a
// symbolic link.
absl::StatusOr<int> OpenRegularFile(const std::string& path,
                                    bool follow = true);

// The whole file; InvalidArgument when it holds more than `limit` bytes.
absl::StatusOr<std::string> ReadLimited(const std::string& path, int64_t limit,
                                        bool follow = true);

// Identifies a file's contents for caches: its path, size and time of change.
absl::StatusOr<std::string> FileStamp(const std::string& path);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_READ_LIMITED_H_
