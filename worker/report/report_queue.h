#ifndef COMERA_WORKER_REPORT_REPORT_QUEUE_H_
#define COMERA_WORKER_REPORT_REPORT_QUEUE_H_

#include <cstdint>
#include <deque>
#include <string>

#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace comera::worker {

// The events of one attempt of a job that the coordinator has not acknowledged,
// with numbers that rise. An event that was never sent may be dropped: once
// more than `capacity` events wait, every second sample of metrics is left out.
// Other events are all kept, up to ten times `capacity` and up to `max_bytes`
// in all; beyond that the oldest is dropped. Not thread-safe.
class ReportQueue {
 public:
  explicit ReportQueue(size_t capacity = 2000, size_t max_bytes = 64 << 20)
      : capacity_(capacity), max_bytes_(max_bytes) {}

  // Adds an event under this number, or under the one after the last event's if
  // that is higher.
  void Add(v1::TrainerEvent event, int64_t number = 0);

  // Appends the first reports, at most `limit` of them and `*bytes` in all, and
  // reduces `*bytes` by their size. The same reports are appended again until
  // they are acknowledged. Returns whether none is left behind.
  bool Fill(const std::string& job, int64_t attempt, size_t limit,
            size_t* bytes,
            google::protobuf::RepeatedPtrField<v1::ProgressReport>* reports);

  // Removes the events up to `number`, which the coordinator has stored.
  void Acknowledge(int64_t number);

  size_t size() const { return sent_.size() + waiting_.size(); }
  // The number of the last event that was acknowledged; 0: none was.
  int64_t acknowledged() const { return acknowledged_; }

 private:
  struct Numbered {
    int64_t number = 0;
    v1::TrainerEvent event;
    size_t bytes = 0;
  };

  void Thin();
  void PopFront(std::deque<Numbered>* queue);

  const size_t capacity_;
  const size_t max_bytes_;
  // The size of the events in both queues.
  size_t bytes_ = 0;
  // The number of the last event that was added.
  int64_t last_ = 0;
  int64_t acknowledged_ = 0;
  // The events that were sent at least once, and the others.
  std::deque<Numbered> sent_;
  std::deque<Numbered> waiting_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_REPORT_QUEUE_H_
