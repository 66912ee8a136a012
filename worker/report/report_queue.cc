// Queues events for the coordinator and thins out metrics when it cannot be
// reached.

#include "worker/report/report_queue.h"

#include <algorithm>
#include <utility>

namespace comera::worker {
namespace {

bool MayGiveWay(const v1::TrainerEvent& event) {
  // Validations are kept: they are rare, and the job is judged by them.
  return event.has_heartbeat() ||
         (event.has_metrics() && !event.metrics().has_validation_loss());
}

}  // namespace

void ReportQueue::Add(v1::TrainerEvent event, int64_t number) {
  last_ = std::max(last_ + 1, number);
  const size_t bytes = event.ByteSizeLong();
  waiting_.push_back({last_, std::move(event), bytes});
  bytes_ += bytes;
  if (waiting_.size() > capacity_) Thin();
  if (waiting_.size() > 10 * capacity_) PopFront(&waiting_);
  while (bytes_ > max_bytes_ && !waiting_.empty()) PopFront(&waiting_);
}

void ReportQueue::PopFront(std::deque<Numbered>* queue) {
  bytes_ -= queue->front().bytes;
  queue->pop_front();
}

void ReportQueue::Thin() {
  std::deque<Numbered> kept;
  bool drop = false;
  for (Numbered& one : waiting_) {
    if (MayGiveWay(one.event)) drop = !drop;
    if (MayGiveWay(one.event) && drop) {
      bytes_ -= one.bytes;
      continue;
    }
    kept.push_back(std::move(one));
  }
  waiting_ = std::move(kept);
}

bool ReportQueue::Fill(
    const std::string& job, int64_t attempt, size_t limit, size_t* bytes,
    google::protobuf::RepeatedPtrField<v1::ProgressReport>* reports) {
  while (sent_.size() < limit && !waiting_.empty()) {
    sent_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  for (const Numbered& one : sent_) {
    if (limit-- == 0 || one.bytes > *bytes) return false;
    *bytes -= one.bytes;
    v1::ProgressReport* report = reports->Add();
    report->set_job(job);
    report->set_attempt(attempt);
    report->set_number(one.number);
    *report->mutable_event() = one.event;
  }
  return waiting_.empty();
}

void ReportQueue::Acknowledge(int64_t number) {
  // An earlier daemon may have sent what was not sent by this one.
  for (std::deque<Numbered>* queue : {&sent_, &waiting_}) {
    while (!queue->empty() && queue->front().number <= number) {
      acknowledged_ = queue->front().number;
      PopFront(queue);
    }
  }
}

}  // namespace comera::worker
