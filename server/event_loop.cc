#include "server/event_loop.h"

#include <chrono>
#include <utility>

namespace comera::server {

EventLoop::EventLoop(Options options) : options_(std::move(options)) {
  thread_ = std::thread([this] { Loop(); });
}

EventLoop::~EventLoop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
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

void EventLoop::Loop() {
  using SteadyClock = std::chrono::steady_clock;
  const bool ticks = options_.on_tick != nullptr &&
                     options_.tick_interval < absl::InfiniteDuration();
  const auto interval = ticks
                            ? absl::ToChronoMilliseconds(options_.tick_interval)
                            : std::chrono::milliseconds(0);
  auto next_tick = SteadyClock::now() + interval;
  while (true) {
    std::deque<std::function<void()>> batch;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const auto ready = [this] { return stopping_ || !queue_.empty(); };
      if (ticks) {
        // The system clock's wait, which thread sanitizers know.
        wake_.wait_until(
            lock,
            std::chrono::system_clock::now() + (next_tick - SteadyClock::now()),
            ready);
      } else {
        wake_.wait(lock, ready);
      }
      if (stopping_ && queue_.empty()) return;
      batch.swap(queue_);
    }
    for (std::function<void()>& closure : batch) {
      closure();
      // Frees what it holds before the next one runs.
      closure = nullptr;
    }
    if (ticks && SteadyClock::now() >= next_tick) {
      options_.on_tick();
      next_tick = SteadyClock::now() + interval;
    }
  }
}

}  // namespace comera::server
