// Runs posted closures, timers and ticks on one thread.
#include "server/runtime/event_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace comera::server {

EventLoop::EventLoop(Options options) : options_(std::move(options)) {
  thread_ = std::thread([this] { Loop(); });
}

EventLoop::~EventLoop() { Stop(); }

void EventLoop::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EventLoop::Post(std::function<void()> closure) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(closure));
  }
  wake_.notify_one();
}

void EventLoop::Run(std::function<void()> closure) {
  std::mutex mutex;
  std::condition_variable done_changed;
  bool done = false;
  Post([&] {
    closure();
    std::lock_guard<std::mutex> lock(mutex);
    done = true;
    done_changed.notify_one();
  });
  std::unique_lock<std::mutex> lock(mutex);
  done_changed.wait(lock, [&] { return done; });
}

void EventLoop::PostAfter(absl::Duration delay, std::function<void()> closure) {
  const auto due = SteadyClock::now() + absl::ToChronoMicroseconds(delay);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    later_.emplace(due, std::move(closure));
  }
  wake_.notify_one();
}

bool EventLoop::Await(SteadyClock::time_point next_tick,
                      std::deque<std::function<void()>>* batch) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_ && queue_.empty()) {
    const auto now = SteadyClock::now();
    auto until = next_tick;
    if (!later_.empty()) until = std::min(until, later_.begin()->first);
    if (until <= now) break;
    if (until == SteadyClock::time_point::max()) {
      wake_.wait(lock);
    } else {
      // A clock that is set back does not stop the ticks.
      wake_.wait_until(lock, until);
    }
  }
  if (stopping_ && queue_.empty()) return false;
  const auto now = SteadyClock::now();
  while (!later_.empty() && later_.begin()->first <= now) {
    queue_.push_back(std::move(later_.begin()->second));
    later_.erase(later_.begin());
  }
  batch->swap(queue_);
  return true;
}

void EventLoop::Loop() {
  const bool ticks = options_.on_tick != nullptr &&
                     options_.tick_interval < absl::InfiniteDuration();
  const auto interval = ticks
                            ? absl::ToChronoMilliseconds(options_.tick_interval)
                            : std::chrono::milliseconds(0);
  auto next_tick =
      ticks ? SteadyClock::now() + interval : SteadyClock::time_point::max();
  std::deque<std::function<void()>> batch;
  while (Await(next_tick, &batch)) {
    for (std::function<void()>& closure : batch) {
      closure();
      // Frees what it holds before the next one runs.
      closure = nullptr;
    }
    batch.clear();
    if (ticks && SteadyClock::now() >= next_tick) {
      options_.on_tick();
      next_tick = SteadyClock::now() + interval;
    }
  }
}

}  // namespace comera::server
