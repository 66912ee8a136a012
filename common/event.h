// A one-time notification that threads can wait for.
#ifndef COMERA_COMMON_EVENT_H_
#define COMERA_COMMON_EVENT_H_

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace comera {

// Like absl::Notification, which ThreadSanitizer does not understand when
// Abseil is a system library. Thread-safe; notifying twice is allowed.
class Event {
 public:
  void Notify() {
    std::lock_guard<std::mutex> lock(mutex_);
    happened_ = true;
    changed_.notify_all();
  }

  bool HasHappened() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return happened_;
  }

  void Wait() const {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return happened_;
    });
  }

  // Returns whether it happened within `timeout`.
  bool WaitFor(absl::Duration timeout) const {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(
        lock, absl::ToChronoNanoseconds(timeout),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return happened_; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool happened_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace comera

#endif  // COMERA_COMMON_EVENT_H_
