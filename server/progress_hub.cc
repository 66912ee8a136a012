#include "server/progress_hub.h"

#include <algorithm>
#include <utility>

#include "server/event_retention.h"
#include "server/job_table.h"

namespace comera::server {

Subscription::~Subscription() {
  if (hub_ == nullptr) return;
  auto it = hub_->readers_.find(job_);
  if (it == hub_->readers_.end()) return;
  it->second.erase(this);
  if (it->second.empty()) hub_->readers_.erase(it);
}

bool Subscription::NeedsBackfill() const {
  return backfill_.empty() && backfill_after_ < backfill_last_;
}

void Subscription::AddBackfill(std::vector<v1::JobEvent> events) {
  if (events.empty()) {
    backfill_after_ = backfill_last_;
    return;
  }
  backfill_after_ = events.back().sequence();
  for (v1::JobEvent& event : events) backfill_.push_back(std::move(event));
}

std::optional<v1::WatchJobResponse> Subscription::Pop() {
  v1::WatchJobResponse response;
  if (first_) {
    *response.mutable_job() = *std::move(first_);
    first_.reset();
    return response;
  }
  if (!backfill_.empty()) {
    *response.mutable_event() = std::move(backfill_.front());
    backfill_.pop_front();
    return response;
  }
  if (NeedsBackfill() || live_.empty()) return std::nullopt;
  if (live_.front().sample) --samples_;
  *response.mutable_event() = std::move(live_.front().event);
  live_.pop_front();
  return response;
}

bool Subscription::Finished() const {
  return complete_ && !first_ && backfill_.empty() && !NeedsBackfill() &&
         live_.empty();
}

void Subscription::Push(const v1::JobEvent& event) {
  const bool sample = IsSample(event);
  if (sample && samples_ >= max_samples_) DropOldestSample();
  if (sample) ++samples_;
  live_.push_back({event, sample});
  if (event.has_state_change() && IsFinal(event.state_change().state())) {
    complete_ = true;
  }
}

void Subscription::DropOldestSample() {
  auto oldest = std::find_if(live_.begin(), live_.end(),
                             [](const Waiting& w) { return w.sample; });
  if (oldest == live_.end()) return;
  --samples_;
  // Grows the note just before it, or becomes one.
  if (oldest != live_.begin() && std::prev(oldest)->event.has_dropped()) {
    v1::JobEvent& note = std::prev(oldest)->event;
    note.mutable_dropped()->set_count(note.dropped().count() + 1);
    // Where a reader that resumes continues.
    note.set_sequence(oldest->event.sequence());
    live_.erase(oldest);
    return;
  }
  oldest->sample = false;
  oldest->event.mutable_dropped()->set_count(1);
}

ProgressHub::~ProgressHub() {
  for (auto& [job, readers] : readers_) {
    for (Subscription* reader : readers) reader->hub_ = nullptr;
  }
}

std::unique_ptr<Subscription> ProgressHub::Subscribe(
    const v1::Job& job, int64_t last_sequence, int64_t after_sequence,
    std::function<void()> on_ready) {
  std::unique_ptr<Subscription> reader(new Subscription);
  reader->job_ = job.name();
  reader->on_ready_ = std::move(on_ready);
  reader->max_samples_ = options_.max_samples;
  reader->first_ = job;
  reader->backfill_after_ = std::max<int64_t>(0, after_sequence);
  reader->backfill_last_ = last_sequence;
  reader->complete_ = IsFinal(job.state());
  if (!reader->complete_) {
    reader->hub_ = this;
    readers_[job.name()].insert(reader.get());
  }
  return reader;
}

void ProgressHub::Publish(const v1::JobEvent& event) {
  auto it = readers_.find(event.job());
  if (it == readers_.end()) return;
  std::vector<Subscription*> readers(it->second.begin(), it->second.end());
  for (Subscription* reader : readers) {
    reader->Push(event);
    reader->on_ready_();
  }
}

}  // namespace comera::server
