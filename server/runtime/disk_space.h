#ifndef COMERA_SERVER_RUNTIME_DISK_SPACE_H_
#define COMERA_SERVER_RUNTIME_DISK_SPACE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::server {

// The room on a file system; tests replace it. Thread-safe.
class DiskSpace {
 public:
  virtual ~DiskSpace() = default;
  // Bytes that this user may still write. Unavailable: the system did not say.
  virtual absl::StatusOr<int64_t> FreeBytes() = 0;
};

// The file system that holds a folder, as statvfs tells.
class StatvfsDiskSpace : public DiskSpace {
 public:
  explicit StatvfsDiskSpace(std::string folder) : folder_(std::move(folder)) {}
  absl::StatusOr<int64_t> FreeBytes() override;

 private:
  const std::string folder_;
};

// Makes the file with that many bytes of real room, or leaves it as it is if it
// has that size already. ResourceExhausted: there is no such room, and no file
// either; Unavailable.
absl::Status ReserveFile(const std::string& path, int64_t bytes);

}  // namespace comera::server

#endif  // COMERA_SERVER_RUNTIME_DISK_SPACE_H_
