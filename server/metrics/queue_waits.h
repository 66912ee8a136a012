#ifndef COMERA_SERVER_METRICS_QUEUE_WAITS_H_
#define COMERA_SERVER_METRICS_QUEUE_WAITS_H_

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace comera::server {

// Since when which job waits in which queue. Thread-safe.
class QueueWaits {
 public:
  // The job waits from then on; one that waits already goes on waiting.
  void Begin(const std::string& job, const std::string& queue,
             absl::Time since);
  // It waits no more; since when it did. Nothing if it did not.
  std::optional<absl::Time> End(const std::string& job);
  // Since when the first job of every queue has been waiting, for queues where
  // jobs wait.
  std::map<std::string, absl::Time> Oldest() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::pair<std::string, absl::Time>> jobs_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::multiset<absl::Time>> queues_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_METRICS_QUEUE_WAITS_H_
