// Fans events out to the readers of each job.
#include "server/view/progress_hub.h"

#include <algorithm>
#include <utility>

#include "proto/job_state.h"
#include "server/coordinator/job/job_index.h"
#include "server/store/event_retention.h"

namespace comera::server {

Subscription::~Subscription() {
  if (hub_ == nullptr) return;
  auto it = hub_->readers_.find(job_);
  it->second.erase(reader_);
  if (it->second.empty()) hub_->readers_.erase(it);
  if (ready_) hub_->ready_.erase(*ready_);
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
  if (NeedsBackfill()) return std::nullopt;
  if (live_.empty()) {
    if (!again_) return std::nullopt;
    *response.mutable_job() = *std::move(again_);
    again_.reset();
    return response;
  }
  if (live_.front().sample) --samples_;
  *response.mutable_event() = *live_.front().event;
  live_.pop_front();
  return response;
}

bool Subscription::Caught() const {
  return !first_ && backfill_.empty() && !NeedsBackfill() && live_.empty();
}

bool Subscription::Finished() const { return complete_ && Caught(); }

bool Subscription::Idle() const { return !complete_ && Caught() && !again_; }

void Subscription::Push(std::shared_ptr<const v1::JobEvent> event) {
  const bool sample = IsSample(*event);
  if (sample && samples_ >= max_samples_) DropOldestSample();
  if (sample) ++samples_;
  if (event->has_state_change()) {
    complete_ = complete_ || IsFinal(event->state_change().state());
    // It says what is newer.
    again_.reset();
  }
  live_.push_back({std::move(event), sample});
}

void Subscription::DropOldestSample() {
  auto oldest = std::find_if(live_.begin(), live_.end(),
                             [](const Waiting& w) { return w.sample; });
  if (oldest == live_.end()) return;
  --samples_;
  if (hub_ != nullptr) ++hub_->dropped_samples_;
  // The note of this reader alone; it takes the event's number and place.
  auto note = std::make_shared<v1::JobEvent>();
  note->set_job(oldest->event->job());
  note->set_attempt(oldest->event->attempt());
  // Where a reader that resumes continues.
  note->set_sequence(oldest->event->sequence());
  *note->mutable_time() = oldest->event->time();
  note->mutable_dropped()->set_count(1);
  // In place of the note just before it, if there is one.
  if (oldest != live_.begin() && std::prev(oldest)->event->has_dropped()) {
    note->mutable_dropped()->set_count(
        std::prev(oldest)->event->dropped().count() + 1);
    oldest = live_.erase(std::prev(oldest));
  }
  oldest->sample = false;
  oldest->event = std::move(note);
}

ProgressHub::~ProgressHub() {
  for (auto& [job, readers] : readers_) {
    for (Subscription* reader : readers) reader->hub_ = nullptr;
  }
}

void ProgressHub::Defer(std::function<void(std::function<void()>)> post) {
  post_ = std::move(post);
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
  // Stored events may say less than the job does: why it waits is in none.
  if (job.state() == v1::QUEUED && last_sequence > after_sequence) {
    reader->again_ = job;
  }
  if (!reader->complete_) {
    reader->hub_ = this;
    std::list<Subscription*>& readers = readers_[job.name()];
    reader->reader_ = readers.insert(readers.end(), reader.get());
  }
  return reader;
}

void ProgressHub::Publish(v1::JobEvent event) {
  auto it = readers_.find(event.job());
  if (it == readers_.end()) return;
  const auto shared = std::make_shared<const v1::JobEvent>(std::move(event));
  for (Subscription* reader : it->second) {
    reader->Push(shared);
    MakeReady(reader);
  }
  Wake();
}

void ProgressHub::Show(const v1::Job& job) {
  auto it = readers_.find(job.name());
  if (it == readers_.end()) return;
  for (Subscription* reader : it->second) {
    if (reader->complete_) continue;
    reader->again_ = job;
    MakeReady(reader);
  }
  Wake();
}

void ProgressHub::MakeReady(Subscription* reader) {
  if (reader->ready_) return;
  reader->ready_ = ready_.insert(ready_.end(), reader);
}

void ProgressHub::Wake() {
  if (post_ == nullptr) {
    while (!ready_.empty()) WakeBurst();
  } else if (!posted_ && !ready_.empty()) {
    posted_ = true;
    post_([this] { WakeBurst(); });
  }
}

void ProgressHub::WakeBurst() {
  posted_ = false;
  for (size_t i = 0; i < options_.burst && !ready_.empty(); ++i) {
    Subscription* reader = ready_.front();
    ready_.pop_front();
    reader->ready_.reset();
    // May destroy readers, this one too.
    const std::function<void()> on_ready = reader->on_ready_;
    on_ready();
  }
  if (post_ == nullptr || ready_.empty()) return;
  posted_ = true;
  post_([this] { WakeBurst(); });
}

}  // namespace comera::server
