#ifndef COMERA_SERVER_SCHEDULER_SERVING_ORDER_H_
#define COMERA_SERVER_SCHEDULER_SERVING_ORDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/scheduler/cluster_snapshot.h"

namespace comera::server {

// Hands out the queued jobs of a snapshot in serving order (scheduler.h), which
// depends on what was placed before. O(log users) per job. Not thread-safe.
class ServingOrder {
 public:
  // The snapshot must outlive this.
  explicit ServingOrder(const ClusterSnapshot& snapshot);

  // The next job, each once; -1: there is none.
  int32_t Next();
  // Counts with the job's start; called before the next Next().
  void Placed(int32_t job, int32_t processes);
  // Counts with the growth of a running job; called after the last Next().
  void Placed(const RunningJob& job, int32_t processes) {
    queues_[job.queue].processes += processes;
  }

  // The number of processes that the queue's jobs have.
  int32_t queue_processes(int32_t queue) const {
    return queues_[queue].processes;
  }
  // Whether the queue stays within its guarantee with this many more.
  bool IsOwed(int32_t queue, int32_t processes) const {
    return queues_[queue].processes + processes <=
           snapshot_.queues[queue].guaranteed_processes;
  }

  // Why `first` is served before `second`, with the processes that run now.
  std::string Why(int32_t first, int32_t second) const;

 private:
  struct User {
    int32_t processes = 0;
    // In order of priority, then acceptance; the first `next` were handed out.
    std::vector<int32_t> jobs;
    size_t next = 0;
    int32_t head() const { return jobs[next]; }
  };
  struct Queue {
    int32_t processes = 0;
    // All users by number, and those with jobs left as a heap.
    std::vector<std::pair<int32_t, User>> users;
    std::vector<User*> heap;
  };

  bool HasLostPatience(const PendingJob& job) const {
    return snapshot_.now - job.waiting_since > snapshot_.options.patience;
  }
  double Share(int32_t queue) const {
    return queues_[queue].processes / snapshot_.queues[queue].weight;
  }
  User& UserOf(int32_t queue, int32_t user);
  const User& UserOf(int32_t queue, int32_t user) const;
  // Whether user a is served after user b of the same queue.
  bool UserAfter(const User* a, const User* b) const;
  bool QueueAfter(int32_t a, int32_t b) const;
  // Compares what does not depend on shares: -1, 1, or 0 if that is equal.
  int Compare(const PendingJob& a, const PendingJob& b) const;
  void PutBack();

  const ClusterSnapshot& snapshot_;
  std::vector<Queue> queues_;
  // Queues with jobs left, as a heap.
  std::vector<int32_t> heap_;
  // Queue and user of the last job; they are not in the heaps.
  int32_t open_queue_ = -1;
  User* open_user_ = nullptr;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_SERVING_ORDER_H_
