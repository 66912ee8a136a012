// The time for which a member trains on without its worker.
#ifndef COMERA_WORKER_TRAINER_PROCESS_WORKER_LEASE_H_
#define COMERA_WORKER_TRAINER_PROCESS_WORKER_LEASE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace comera::trainer {

// A lease that holds as long as its stamp keeps changing: the times of a file
// are compared with each other only, and what passes is measured by a monotonic
// clock, so that a change of the wall clock ends no lease. Not thread-safe.
class WorkerLease {
 public:
  WorkerLease(absl::Duration length, absl::Time now)
      : length_(length), renewed_(now) {}

  // `stamp` is nothing if it cannot be read, which renews nothing.
  bool Holds(std::optional<int64_t> stamp, absl::Time now);

 private:
  const absl::Duration length_;
  std::optional<int64_t> stamp_;
  absl::Time renewed_;
};

// Watches the lease that a file gives this process.
//
// Life cycle: a thread looks at the file from construction to destruction. It
// calls `on_end` once when the lease has ended, by two looks one interval
// apart: if this process and the worker were frozen together, the first comes
// before the worker has touched the file. If the process is still there
// `patience` later, it kills the process with its group.
class LeaseWatch {
 public:
  struct Options {
    std::string file;
    absl::Duration lease;
    // The time for the last checkpoint.
    absl::Duration patience = absl::Minutes(10);
  };

  LeaseWatch(const Options& options, std::function<void()> on_end);
  ~LeaseWatch();

 private:
  void Loop();
  // Whether the worker is there, or was not long ago.
  bool Holds(WorkerLease& lease);
  // Returns whether the time passed; false: the watch ends.
  bool Sleep(absl::Duration duration);

  const Options options_;
  const absl::Duration interval_;
  const std::function<void()> on_end_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROCESS_WORKER_LEASE_H_
