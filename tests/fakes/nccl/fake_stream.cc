// Runs enqueued work on a thread, and implements events and captures.

#include "tests/fakes/nccl/fake_stream.h"

#include <utility>

#include "gtest/gtest.h"

namespace comera::collective {

FakeStream::FakeStream() : thread_(&FakeStream::Loop, this) {}

FakeStream::~FakeStream() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FakeStream::Enqueue(std::function<void()> work) {
  if (const std::shared_ptr<FakeGraph> recorded = graph()) {
    recorded->work.push_back(std::move(work));
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void FakeStream::Synchronize() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void FakeStream::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    work();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void FakeEvent::Record(FakeStream& stream) {
  const std::shared_ptr<FakeGraph> graph = stream.graph();
  graph_ = graph;
  captured_ = graph != nullptr;
  if (captured_) return;
  int number;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    number = ++state_->recorded;
  }
  stream.Enqueue([state = state_, number] {
    const std::lock_guard<std::mutex> lock(state->mutex);
    state->reached = number;
    state->changed.notify_all();
  });
}

void FakeEvent::Delay(FakeStream& stream) {
  if (captured_) {
    if (stream.graph() == nullptr) stream.Join(graph_.lock());
    return;
  }
  EXPECT_EQ(stream.graph(), nullptr) << "a capture waits for what is outside";
  int number;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    number = state_->recorded;
  }
  stream.Enqueue([state = state_, number] {
    std::unique_lock<std::mutex> lock(state->mutex);
    state->changed.wait(lock, [&] { return state->reached >= number; });
  });
}

bool FakeEvent::Done() const {
  if (captured_) {
    ADD_FAILURE() << "an event of a capture was asked whether it is done";
    return false;
  }
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->reached == state_->recorded;
}

}  // namespace comera::collective
