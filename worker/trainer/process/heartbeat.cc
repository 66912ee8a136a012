// Sends a heartbeat at regular intervals on a thread.
#include "worker/trainer/process/heartbeat.h"

#include <utility>

namespace comera::trainer {

void Activity::Set(v1::Stage stage, int64_t step, std::string activity) {
  const std::lock_guard<std::mutex> lock(mutex_);
  heartbeat_.set_stage(stage);
  heartbeat_.set_step(step);
  heartbeat_.set_activity(std::move(activity));
}

void Activity::Describe(std::string activity) {
  const std::lock_guard<std::mutex> lock(mutex_);
  heartbeat_.set_activity(std::move(activity));
}

void Activity::CountWork() {
  const std::lock_guard<std::mutex> lock(mutex_);
  heartbeat_.set_work(heartbeat_.work() + 1);
}

void Activity::Count(const collective::Communicator* communicator) {
  const std::lock_guard<std::mutex> lock(mutex_);
  communicator_ = communicator;
}

v1::Heartbeat Activity::Read() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::Heartbeat heartbeat = heartbeat_;
  if (communicator_ != nullptr) {
    heartbeat.set_collectives(communicator_->collectives_done());
    heartbeat.set_collectives_begun(communicator_->collectives_begun());
  }
  return heartbeat;
}

HeartbeatThread::HeartbeatThread(const Activity* activity, EventSink sink,
                                 absl::Duration interval)
    : activity_(activity),
      sink_(std::move(sink)),
      interval_(interval),
      thread_([this] { Loop(); }) {}

HeartbeatThread::~HeartbeatThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void HeartbeatThread::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  do {  // once at least, however late this thread runs
    v1::TrainerEvent event;
    *event.mutable_heartbeat() = activity_->Read();
    sink_(event);
    wake_.wait_for(lock, absl::ToChronoNanoseconds(interval_),
                   [this]()
                       ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_; });
  } while (!stop_);
}

}  // namespace comera::trainer
