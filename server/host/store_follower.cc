// Follows the store of a leading coordinator, a round at each tick.
#include "server/host/store_follower.h"

#include <utility>

#include "common/log.h"

namespace comera::server {
namespace {

// Events of one job that are read between two ticks.
constexpr int kMaxEvents = 10000;

}  // namespace

StoreFollower::StoreFollower(Options options, StoreThread* store,
                             JobDirectory* directory, ProgressHub* hub)
    : options_(std::move(options)),
      store_(store),
      directory_(directory),
      hub_(hub),
      change_(options_.change) {}

void StoreFollower::Poll() {
  if (pending_reads_ > 0) return;
  ++pending_reads_;
  waiting_.swap(waiting_next_);
  store_->Read([this, after = change_](JobStore* store) {
    auto changes = options_.feed->ReadChanges(after);
    if (options_.on_read) options_.on_read(store);
    options_.post([this, changes = std::move(changes)]() mutable {
      ShowChanges(std::move(changes));
      EndRead();
    });
  });
}

void StoreFollower::CatchUp(std::function<void()> done) {
  // A round that is under way may have read too early.
  waiting_next_.push_back(std::move(done));
  Poll();
}

void StoreFollower::EndRead() {
  if (--pending_reads_ > 0) return;
  auto done = std::exchange(waiting_, {});
  for (const std::function<void()>& one : done) one();
  if (waiting_next_.empty()) return;
  if (!stopped_) return Poll();
  // Nothing more is read.
  done = std::exchange(waiting_next_, {});
  for (const std::function<void()>& one : done) one();
}

void StoreFollower::ShowChanges(absl::StatusOr<StoreChanges> changes) {
  if (changes.ok() == feed_failed_) {
    feed_failed_ = !changes.ok();
    LOG(WARNING) << "event=following status=\"" << changes.status() << "\"";
  }
  if (!changes.ok() || stopped_) return;
  change_ = changes->change;
  for (JobRecord& record : changes->records) {
    const std::string& name = record.job().name();
    const JobDirectory::Entry* known = directory_->Find(name);
    // Nobody waits for the events: later readers get them from the store.
    if (known == nullptr || !hub_->HasReaders(name)) {
      Show(std::move(record));
      continue;
    }
    // The directory stays behind until they are published, so that a reader
    // who comes meanwhile gets each event once.
    ++pending_reads_;
    store_->ReadEvents(
        name, known->last_sequence, record.last_sequence(), kMaxEvents,
        [this, record](absl::StatusOr<std::vector<v1::JobEvent>> events) {
          options_.post([this, record, events = std::move(events)] {
            ShowEvents(record, events);
            EndRead();
          });
        });
  }
  for (const std::string& name : changes->deleted_jobs) {
    directory_->Remove(name);
    options_.on_change(name);
  }
}

void StoreFollower::ShowEvents(
    JobRecord record, const absl::StatusOr<std::vector<v1::JobEvent>>& events) {
  if (stopped_) return;
  if (!events.ok()) {
    LOG(WARNING) << "job=" << record.job().name()
                 << " event=following status=\"" << events.status() << "\"";
    // The next round reads all that changed since the beginning.
    change_ = 0;
    return;
  }
  for (const v1::JobEvent& event : *events) hub_->Publish(event);
  Show(std::move(record));
}

void StoreFollower::Show(JobRecord record) {
  const std::string name = record.job().name();
  directory_->Put(record.serial(), record.last_sequence(),
                  std::move(*record.mutable_job()));
  options_.on_change(name);
}

}  // namespace comera::server
