#ifndef COMERA_SERVER_SCHEDULER_SERVING_TIER_H_
#define COMERA_SERVER_SCHEDULER_SERVING_TIER_H_

#include <cstdint>
#include <vector>

#include "server/scheduler/cluster_snapshot.h"
#include "server/scheduler/queue_use.h"

namespace comera::server {

// Hands out some queued jobs, those of one tier, in turn: jobs that are
// resized, then by priority, then those that are due (QueueUse) by acceptance,
// then by the queue's share, then by the user's processes, then by acceptance.
// The order follows what is counted in `use` between two calls for the queue of
// the last job. O(log users) per job. Not thread-safe.
class ServingTier {
 public:
  // Both must outlive this.
  ServingTier(const ClusterSnapshot& snapshot, const QueueUse& use,
              const std::vector<int32_t>& jobs);

  // The next job, each once; -1: there is none.
  int32_t Next();

 private:
  struct User {
    // In order of priority, then acceptance; the first `next` were handed out.
    std::vector<int32_t> jobs;
    size_t next = 0;
    int32_t head() const { return jobs[next]; }
  };

  // Users with jobs left, as a heap, by queue.
  using Heap = std::vector<int32_t>;

  bool UserAfter(int32_t a, int32_t b) const;
  bool QueueAfter(int32_t a, int32_t b) const;
  void PushUser(int32_t queue, int32_t user);
  void PutBack();

  const ClusterSnapshot& snapshot_;
  const QueueUse& use_;
  // By QueueUse::user().
  std::vector<User> users_;
  std::vector<Heap> queues_;
  // Queues with jobs left, as a heap.
  Heap heap_;
  // Queue and user of the last job; they are not in the heaps.
  int32_t open_queue_ = -1;
  int32_t open_user_ = -1;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_SERVING_TIER_H_
