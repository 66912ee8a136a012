#ifndef COMERA_TESTS_SERVER_DAEMON_FAKE_DISK_SPACE_H_
#define COMERA_TESTS_SERVER_DAEMON_FAKE_DISK_SPACE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "server/runtime/disk_space.h"

namespace comera::server {

// A disk with as much free space as a test says, at first 1,000 MiB.
class FakeDiskSpace : public DiskSpace {
 public:
  absl::StatusOr<int64_t> FreeBytes() override { return free_.load(); }
  void Set(int64_t mebibytes) { free_ = mebibytes << 20; }

 private:
  std::atomic<int64_t> free_{int64_t{1000} << 20};
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_DAEMON_FAKE_DISK_SPACE_H_
