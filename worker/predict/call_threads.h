#ifndef COMERA_WORKER_PREDICT_CALL_THREADS_H_
#define COMERA_WORKER_PREDICT_CALL_THREADS_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

namespace comera::worker {

// Threads on which calls run that may block, and a bounded line of calls that
// wait for one. A thread starts when it is needed first. Thread-safe.
class CallThreads {
 public:
  CallThreads(size_t most_threads, size_t most_waiting)
      : most_threads_(most_threads), most_waiting_(most_waiting) {}
  // Drops the calls that wait; waits for those that run.
  ~CallThreads();

  // Runs `call` on one of the threads. False, without running it: too many
  // wait.
  bool Run(std::function<void()> call);

 private:
  void Work();

  const size_t most_threads_, most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The number of calls that run.
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_CALL_THREADS_H_
