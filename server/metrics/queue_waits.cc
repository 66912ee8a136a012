// Keeps since when jobs have been waiting in each queue.
#include "server/metrics/queue_waits.h"

namespace comera::server {

void QueueWaits::Begin(const std::string& job, const std::string& queue,
                       absl::Time since) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!jobs_.emplace(job, std::make_pair(queue, since)).second) return;
  queues_[queue].insert(since);
}

std::optional<absl::Time> QueueWaits::End(const std::string& job) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return std::nullopt;
  const auto [queue, since] = it->second;
  jobs_.erase(it);
  std::multiset<absl::Time>& times = queues_[queue];
  times.erase(times.find(since));
  if (times.empty()) queues_.erase(queue);
  return since;
}

std::map<std::string, absl::Time> QueueWaits::Oldest() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::string, absl::Time> oldest;
  for (const auto& [queue, times] : queues_) oldest[queue] = *times.begin();
  return oldest;
}

}  // namespace comera::server
