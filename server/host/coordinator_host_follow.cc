// A host whose coordinator does not lead: it shows what the leader stored.

#include <utility>

#include "common/log.h"
#include "server/host/coordinator_host.h"

namespace comera::server {
namespace {

// Of one job between two ticks.
constexpr int kMaxEvents = 10000;

}  // namespace

void CoordinatorHost::Follow() {
  // One round at a time.
  if (pending_reads_ > 0) return;
  ++pending_reads_;
  store_->Read([this, after = followed_change_](JobStore* store) {
    auto changes = options_.follow->ReadChanges(after);
    if (options_.on_follow) options_.on_follow(store);
    loop_->Post([this, changes = std::move(changes)]() mutable {
      --pending_reads_;
      TakeChanges(std::move(changes));
    });
  });
}

void CoordinatorHost::TakeChanges(absl::StatusOr<StoreChanges> changes) {
  if (changes.ok() == feed_failed_) {
    feed_failed_ = !changes.ok();
    LOG(WARNING) << "event=following status=\"" << changes.status() << "\"";
  }
  if (!changes.ok() || stopping_) return;
  followed_change_ = changes->change;
  for (JobRecord& record : changes->records) {
    const std::string& name = record.job().name();
    const JobDirectory::Entry* known = directory_.Find(name);
    // Nobody waits for the events: whoever comes reads them from the store.
    if (known == nullptr || !hub_.HasReaders(name)) {
      Show(std::move(record));
      continue;
    }
    // The directory stays behind until they are published, so that a reader
    // who comes meanwhile gets each event once.
    ++pending_reads_;
    store_->ReadEvents(
        name, known->last_sequence, record.last_sequence(), kMaxEvents,
        [this, record](absl::StatusOr<std::vector<v1::JobEvent>> events) {
          loop_->Post([this, record, events = std::move(events)] {
            --pending_reads_;
            TakeEvents(record, events);
          });
        });
  }
  for (const std::string& name : changes->deleted_jobs) {
    directory_.Remove(name);
    NotifyChange(name);
  }
}

void CoordinatorHost::TakeEvents(
    JobRecord record, const absl::StatusOr<std::vector<v1::JobEvent>>& events) {
  if (stopping_) return;
  if (!events.ok()) {
    LOG(WARNING) << "job=" << record.job().name()
                 << " event=following status=\"" << events.status() << "\"";
    // Taken again with all that changed since the beginning.
    followed_change_ = 0;
    return;
  }
  for (const v1::JobEvent& event : *events) hub_.Publish(event);
  Show(std::move(record));
}

void CoordinatorHost::Show(JobRecord record) {
  const std::string name = record.job().name();
  directory_.Put(record.serial(), record.last_sequence(),
                 std::move(*record.mutable_job()));
  ++visible_changes_;
  NotifyChange(name);
}

}  // namespace comera::server
