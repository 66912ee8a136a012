// Runs calls on a few threads, in the order in which they came.

#include "worker/predict/call_threads.h"

#include <utility>

namespace comera::worker {

CallThreads::~CallThreads() {
  std::deque<std::function<void()>> dropped;
  std::vector<std::thread> threads;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
    threads.swap(threads_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

bool CallThreads::Run(std::function<void()> call) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_ ||
        running_ + waiting_.size() >= most_threads_ + most_waiting_) {
      return false;
    }
    waiting_.push_back(std::move(call));
    if (running_ + waiting_.size() > threads_.size() &&
        threads_.size() < most_threads_) {
      threads_.emplace_back([this] { Work(); });
    }
  }
  changed_.notify_one();
  return true;
}

void CallThreads::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    while (waiting_.empty() && !stopping_) changed_.wait(lock);
    if (stopping_) return;
    std::function<void()> call = std::move(waiting_.front());
    waiting_.pop_front();
    ++running_;
    lock.unlock();
    call();
    // What it holds goes without the lock.
    call = nullptr;
    lock.lock();
    --running_;
  }
}

}  // namespace comera::worker
