#ifndef COMERA_SERVER_RUNTIME_EVENT_LOOP_H_
#define COMERA_SERVER_RUNTIME_EVENT_LOOP_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace comera::server {

// One thread that runs closures in the order in which they were posted, and a
// tick in between. What only its closures touch needs no lock.
//
// Post() may be called from any thread, also from a closure.
class EventLoop {
 public:
  struct Options {
    // Time between ticks; infinite: none.
    absl::Duration tick_interval = absl::InfiniteDuration();
    std::function<void()> on_tick;
  };

  EventLoop() : EventLoop(Options{}) {}
  explicit EventLoop(Options options);
  ~EventLoop();

  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs what was posted before and what that posts, then ends the thread.
  // Closures may call this object's functions until it returns, so that its
  // owner need not take its pointer to it away from them. The destructor calls
  // it. Not from the loop's own thread.
  void Stop();

  // Dropped once Stop() has begun and the queue is empty.
  void Post(std::function<void()> closure);

  // Posts once `delay` of real time is over; dropped if Stop() begins
  // before.
  void PostAfter(absl::Duration delay, std::function<void()> closure);

  // Posts and waits until it ran. Not from the loop's own thread.
  void Run(std::function<void()> closure);

 private:
  using SteadyClock = std::chrono::steady_clock;

  void Loop();
  // Waits until there is something to do or it is `next_tick`; false: the end.
  bool Await(SteadyClock::time_point next_tick,
             std::deque<std::function<void()>>* batch);

  const Options options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  // What is to be posted later, by when it is due.
  std::multimap<SteadyClock::time_point, std::function<void()>> later_
      ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_RUNTIME_EVENT_LOOP_H_
