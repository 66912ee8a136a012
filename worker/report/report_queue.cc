// Queues events for the coordinator and thins out metrics when it cannot be
// reached.

#include "worker/report/report_queue.h"

#include <utility>

namespace comera::worker {
namespace {

bool MayGiveWay(const v1::TrainerEvent& event) {
  // Validations are kept: they are rare, and the job is judged by them.
  return event.has_heartbeat() ||
         (event.has_metrics() && !event.metrics().has_validation_loss());
}

}  // namespace

void ReportQueue::Add(v1::TrainerEvent event) {
  waiting_.push_back(std::move(event));
  if (waiting_.size() > capacity_) Thin();
  if (waiting_.size() > 10 * capacity_) waiting_.pop_front();
}

void ReportQueue::Thin() {
  std::deque<v1::TrainerEvent> kept;
  bool drop = false;
  for (v1::TrainerEvent& event : waiting_) {
    if (MayGiveWay(event)) drop = !drop;
    if (MayGiveWay(event) && drop) continue;
    kept.push_back(std::move(event));
  }
  waiting_ = std::move(kept);
}

bool ReportQueue::Fill(
    const std::string& job, int64_t attempt, size_t limit, size_t* bytes,
    google::protobuf::RepeatedPtrField<v1::ProgressReport>* reports) {
  while (numbered_.size() < limit && !waiting_.empty()) {
    numbered_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  int64_t number = first_;
  for (const v1::TrainerEvent& event : numbered_) {
    const size_t size = event.ByteSizeLong();
    if (limit-- == 0 || size > *bytes) return false;
    *bytes -= size;
    v1::ProgressReport* report = reports->Add();
    report->set_job(job);
    report->set_attempt(attempt);
    report->set_number(number++);
    *report->mutable_event() = event;
  }
  return waiting_.empty();
}

void ReportQueue::Acknowledge(int64_t number) {
  while (first_ <= number && !numbered_.empty()) {
    numbered_.pop_front();
    ++first_;
  }
}

}  // namespace comera::worker
