#ifndef COMERA_WORKER_REPORT_REPORT_QUEUE_H_
#define COMERA_WORKER_REPORT_REPORT_QUEUE_H_

#include <cstdint>
#include <deque>
#include <string>

#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace comera::worker {

// The events of one job's attempt that the coordinator has not acknowledged.
// An event gets its number when it is first sent, so that until then metrics
// may give way: with more than `capacity` waiting, every second sample of
// metrics is left out. All other events are kept, up to ten times as many; then
// the oldest goes. Not thread-safe.
class ReportQueue {
 public:
  explicit ReportQueue(size_t capacity = 2000) : capacity_(capacity) {}

  void Add(v1::TrainerEvent event);

  // Appends the first reports, at most `limit` and `*bytes` in all, which it
  // reduces; the same ones again until they are acknowledged. Returns whether
  // none is left behind.
  bool Fill(const std::string& job, int64_t attempt, size_t limit,
            size_t* bytes,
            google::protobuf::RepeatedPtrField<v1::ProgressReport>* reports);

  // All up to `number` are stored.
  void Acknowledge(int64_t number);

  size_t size() const { return numbered_.size() + waiting_.size(); }

 private:
  void Thin();

  const size_t capacity_;
  // Sent at least once: first_ is the number of the first one.
  std::deque<v1::TrainerEvent> numbered_;
  int64_t first_ = 1;
  std::deque<v1::TrainerEvent> waiting_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_REPORT_QUEUE_H_
