#ifndef COMERA_WORKER_GANG_LEASE_FILE_H_
#define COMERA_WORKER_GANG_LEASE_FILE_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace comera::worker {

// The file by which members see that their worker runs: it is touched ten times
// in the length of a lease, or every second if that is more often. If it was
// removed, it is made again.
//
// Life cycle: a thread touches it from Start to destruction. It stays.
class LeaseFile {
 public:
  // Errors are those of ErrnoStatus (common/files.h).
  static absl::StatusOr<std::unique_ptr<LeaseFile>> Start(
      const std::string& path, absl::Duration lease);
  ~LeaseFile();

 private:
  LeaseFile(std::string path, absl::Duration interval);
  void Loop();

  const std::string path_;
  const absl::Duration interval_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Declared last, because it uses all else.
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_LEASE_FILE_H_
