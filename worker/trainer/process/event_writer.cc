// Queues events, and writes them as lines of JSON on a thread.
#include "worker/trainer/process/event_writer.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/time_util.h"

namespace comera::trainer {
namespace {

bool MayGiveWay(const v1::TrainerEvent& event) {
  return event.has_metrics() || event.has_heartbeat();
}

}  // namespace

std::string EventWriter::ToLine(const v1::TrainerEvent& event) {
  std::string line;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  // This fails only for messages with Any fields of unknown type; there are
  // none.
  (void)google::protobuf::util::MessageToJsonString(event, &line, options);
  line += '\n';
  return line;
}

EventWriter::EventWriter(WriteLine write_line, size_t capacity)
    : write_line_(std::move(write_line)),
      capacity_(capacity),
      thread_([this] { Loop(); }) {}

EventWriter::~EventWriter() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void EventWriter::Write(v1::TrainerEvent event) {
  if (!event.has_time()) {
    *event.mutable_time() =
        google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
            absl::GetCurrentTimeNanos());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (queue_.size() >= capacity_) {
    const auto victim = std::find_if(queue_.begin(), queue_.end(), MayGiveWay);
    if (victim != queue_.end()) {
      queue_.erase(victim);
      ++dropped_;
    } else if (MayGiveWay(event)) {
      ++dropped_;
      return;
    }
  }
  queue_.push_back(std::move(event));
  work_.notify_one();
}

void EventWriter::Flush() {
  std::unique_lock<std::mutex> lock(mutex_);
  drained_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queue_.empty() && !writing_;
  });
}

int64_t EventWriter::dropped() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return dropped_;
}

void EventWriter::Loop() {
  bool reader_there = true;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    work_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !queue_.empty() || stop_;
    });
    if (queue_.empty()) return;
    const v1::TrainerEvent event = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    lock.unlock();
    if (reader_there) reader_there = write_line_(ToLine(event));
    lock.lock();
    writing_ = false;
    if (queue_.empty()) drained_.notify_all();
  }
}

EventWriter::WriteLine EventWriter::ToDescriptor(int descriptor,
                                                 absl::Duration pause) {
  return [descriptor, pause](const std::string& line) {
    size_t done = 0;
    while (done < line.size()) {
      const ssize_t n =
          write(descriptor, line.data() + done, line.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == ENOSPC || errno == EDQUOT)) {
        absl::SleepFor(pause);
        continue;
      }
      if (n < 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  };
}

}  // namespace comera::trainer
