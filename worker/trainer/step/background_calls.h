#ifndef COMERA_WORKER_TRAINER_STEP_BACKGROUND_CALLS_H_
#define COMERA_WORKER_TRAINER_STEP_BACKGROUND_CALLS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

namespace comera::trainer {

// Runs calls on a thread of its own, in the order in which they were added.
// After an error the calls behind it are dropped until the next Wait. Add and
// Wait belong to one thread. Destruction waits for the call under way and drops
// the others.
class BackgroundCalls {
 public:
  BackgroundCalls();
  ~BackgroundCalls();
  BackgroundCalls(const BackgroundCalls&) = delete;
  BackgroundCalls& operator=(const BackgroundCalls&) = delete;

  void Add(std::function<absl::Status()> call);
  // Waits for all calls, and returns the first error since the last Wait.
  absl::Status Wait();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  // The calls that are not done; the first one is under way.
  std::deque<std::function<absl::Status()>> calls_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STEP_BACKGROUND_CALLS_H_
