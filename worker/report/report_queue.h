#ifndef COMERA_WORKER_REPORT_REPORT_QUEUE_H_
#define COMERA_WORKER_REPORT_REPORT_QUEUE_H_

#include <cstdint>
#include <deque>
#include <string>

#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace comera::worker {

// The events of one attempt of a job that the coordinator has not acknowledged.
// An event gets its number when it is first sent. Until then metrics may be
// dropped: once more than `capacity` events wait, every second sample of
// metrics is left out. Other events are all kept, up to ten times `capacity`;
// beyond that the oldest is dropped. Not thread-safe.
class ReportQueue {
 public:
  explicit ReportQueue(size_t capacity = 2000) : capacity_(capacity) {}

  void Add(v1::TrainerEvent event);

  // Appends the first reports, at most `limit` of them and `*bytes` in all, and
  // reduces `*bytes` by their size. The same reports are appended again until
  // they are acknowledged. Returns whether none is left behind.
  bool Fill(const std::string& job, int64_t attempt, size_t limit,
            size_t* bytes,
            google::protobuf::RepeatedPtrField<v1::ProgressReport>* reports);

  // Removes the events up to `number`, which the coordinator has stored.
  void Acknowledge(int64_t number);

  size_t size() const { return numbered_.size() + waiting_.size(); }

 private:
  void Thin();

  const size_t capacity_;
  // The events sent at least once; first_ is the number of the first.
  std::deque<v1::TrainerEvent> numbered_;
  int64_t first_ = 1;
  std::deque<v1::TrainerEvent> waiting_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_REPORT_QUEUE_H_
