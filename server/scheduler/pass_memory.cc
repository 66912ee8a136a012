// Implements PassMemory: grants of room, and ends that jobs told.
#include "server/scheduler/pass_memory.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace comera::server {
namespace {

// What a job may take longer than twice the time that it told.
constexpr absl::Duration kSlack = absl::Minutes(1);
// More than that is no estimate; workers tell what they like.
constexpr absl::Duration kLongest = absl::Hours(24 * 3650);

}  // namespace

PassMemory::Word PassMemory::After(const Told& told, absl::Time now) const {
  const absl::Duration remaining =
      std::max(told.remaining, absl::ZeroDuration());
  Word word;
  if (const auto it = words_.find(told.serial);
      it != words_.end() && it->second.attempt == told.attempt) {
    word = it->second;
    if (word.remaining == remaining) return word;
  }
  word.attempt = told.attempt;
  word.remaining = remaining;
  word.told = now;
  if (remaining <= kLongest) {
    word.deadline = std::min(word.deadline, now + 2 * remaining + kSlack);
  }
  return word;
}

void PassMemory::Hear(const Told& told, absl::Time now) {
  Word word = After(told, now);
  word.round = round_;
  words_[told.serial] = word;
}

void PassMemory::EndHearing() {
  for (auto it = words_.begin(); it != words_.end();) {
    const auto here = it++;
    if (here->second.round != round_) words_.erase(here);
  }
}

absl::Time PassMemory::EndOf(const Told& told, absl::Time now) const {
  const Word word = After(told, now);
  if (word.remaining > kLongest || now > word.deadline) {
    return absl::InfiniteFuture();
  }
  const absl::Time end = word.told + word.remaining;
  return end > now ? end : absl::InfiniteFuture();
}

void PassMemory::Note(const ClusterSnapshot& snapshot,
                      const Decision& decision) {
  for (const Placement& placement : decision.placements) {
    granted_.erase(snapshot.jobs[placement.job].serial);
  }
  if (!granted_.empty()) {
    absl::flat_hash_set<int64_t> queued;
    for (const PendingJob& job : snapshot.jobs) queued.insert(job.serial);
    for (auto it = granted_.begin(); it != granted_.end();) {
      const auto here = it++;
      if (!queued.contains(here->first)) granted_.erase(here);
    }
  }
  for (const StopOrder& order : decision.stops) {
    if (order.job < 0) continue;
    // With what was free already, the stops give it all it needs.
    const PendingJob& job = snapshot.jobs[order.job];
    granted_[job.serial] = job.min_processes();
  }
}

}  // namespace comera::server
