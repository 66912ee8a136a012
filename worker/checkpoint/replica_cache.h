#ifndef COMERA_WORKER_CHECKPOINT_REPLICA_CACHE_H_
#define COMERA_WORKER_CHECKPOINT_REPLICA_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/checkpoint/checkpoint_names.h"

namespace comera::worker {

// Holds copies of other workers' training states in memory, up to a bound: the
// newest two of each job. When the bound is reached, older copies of other jobs
// are evicted, and then the older one of the same job. Thread-safe.
class ReplicaCache {
 public:
  using Contents = std::shared_ptr<const std::string>;

  explicit ReplicaCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // ResourceExhausted: a copy of this size never fits.
  absl::Status CheckFits(int64_t size) const;
  // ResourceExhausted: the copy does not fit, whatever is evicted; nothing of
  // the job is lost then. Aborted: there is a copy by a later attempt, which
  // this one must not displace.
  absl::Status Put(const std::string& job, const CheckpointName& name,
                   std::string contents);
  // The copy that is the likeliest to be the state of `key` (NamesOf); null if
  // there is none.
  Contents Get(const std::string& job, const StateKey& key) const;
  struct Entry {
    CheckpointName name;
    int64_t size = 0;
  };
  // The copies of a job, newest last.
  std::vector<Entry> List(const std::string& job) const;
  std::vector<std::string> Jobs() const;
  void Drop(const std::string& job);

  size_t bytes() const;
  size_t max_bytes() const { return max_bytes_; }

 private:
  struct Copy {
    CheckpointName name;
    Contents contents;
    int64_t age = 0;  // rises with every Put
  };

  // The copies of one job.
  using Copies = std::map<StateKey, Copy>;

  // The bytes that remain taken when everything that may go for a copy of the
  // job has gone.
  size_t Unmovable(const std::string& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Evicts the oldest copy that is not its job's newest. Returns false if there
  // is none.
  bool EvictOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(const std::string& job, const StateKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_bytes_;
  mutable std::mutex mutex_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t puts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Copies> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_REPLICA_CACHE_H_
