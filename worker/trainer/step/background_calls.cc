// A thread and a queue.
#include "worker/trainer/step/background_calls.h"

#include <utility>

namespace comera::trainer {

BackgroundCalls::BackgroundCalls() : thread_([this] { Run(); }) {}

BackgroundCalls::~BackgroundCalls() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundCalls::Add(std::function<absl::Status()> call) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back(std::move(call));
  }
  changed_.notify_all();
}

absl::Status BackgroundCalls::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return calls_.empty(); });
  return std::exchange(error_, absl::OkStatus());
}

void BackgroundCalls::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !calls_.empty(); });
    if (ending_) return;
    if (error_.ok()) {
      // References into a deque outlive what is added at its end.
      const std::function<absl::Status()>& call = calls_.front();
      lock.unlock();
      absl::Status status = call();
      lock.lock();
      error_ = std::move(status);
    }
    calls_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace comera::trainer
