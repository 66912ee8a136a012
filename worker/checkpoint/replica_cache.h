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
// are evicted. Thread-safe.
class ReplicaCache {
 public:
  using Contents = std::shared_ptr<const std::string>;

  explicit ReplicaCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // ResourceExhausted: the copy does not fit, whatever is evicted.
  absl::Status Put(const std::string& job, const CheckpointName& name,
                   std::string contents);
  // Null if the copy is not held.
  Contents Get(const std::string& job, int64_t step) const;
  struct Entry {
    CheckpointName name;
    int64_t size = 0;
  };
  // The copies of a job, by ascending step.
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

  // Evicts the oldest copy that is not its job's newest. Returns false if there
  // is none.
  bool EvictOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(const std::string& job, int64_t step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_bytes_;
  mutable std::mutex mutex_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t puts_ ABSL_GUARDED_BY(mutex_) = 0;
  // The copies by job, then by step.
  std::map<std::string, std::map<int64_t, Copy>> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_REPLICA_CACHE_H_
