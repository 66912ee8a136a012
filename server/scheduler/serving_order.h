#ifndef COMERA_SERVER_SCHEDULER_SERVING_ORDER_H_
#define COMERA_SERVER_SCHEDULER_SERVING_ORDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/scheduler/scheduler.h"

namespace comera::server {

// Hands out the queued jobs of a snapshot in serving order (scheduler.h), which
// depends on what was placed before. O(log users) per job. Not thread-safe.
class ServingOrder {
 public:
  // Must outlive this.
  explicit ServingOrder(const ClusterSnapshot& snapshot);

  // The next job, -1: there is none. Each once.
  int32_t Next();
  // The job got ranks, before the next Next().
  void Placed(int32_t job, int32_t ranks);
  // A running job is to get so many more; after the last Next().
  void Placed(const RunningJob& job, int32_t ranks) {
    queues_[job.queue].ranks += ranks;
  }

  // Ranks that the queue's jobs hold.
  int32_t queue_processes(int32_t queue) const { return queues_[queue].ranks; }
  // Whether the queue stays within its guarantee with so many more.
  bool IsOwed(int32_t queue, int32_t ranks) const {
    return queues_[queue].ranks + ranks <=
           snapshot_.queues[queue].guaranteed_processes;
  }

  // Why `first` is served before `second`, by the ranks in use now.
  std::string Why(int32_t first, int32_t second) const;

 private:
  struct User {
    int32_t ranks = 0;
    // In order of priority, then acceptance; the first `next` were handed out.
    std::vector<int32_t> jobs;
    size_t next = 0;
    int32_t head() const { return jobs[next]; }
  };
  struct Queue {
    int32_t ranks = 0;
    // By user's number, and those with jobs left as a heap.
    std::vector<std::pair<int32_t, User>> users;
    std::vector<User*> heap;
  };

  bool HasLostPatience(const PendingJob& job) const {
    return snapshot_.now - job.waiting_since > snapshot_.options.patience;
  }
  double Share(int32_t queue) const {
    return queues_[queue].ranks / snapshot_.queues[queue].weight;
  }
  User& UserOf(int32_t queue, int32_t user);
  const User& UserOf(int32_t queue, int32_t user) const;
  // Whether user a is served after user b of the same queue.
  bool UserAfter(const User* a, const User* b) const;
  bool QueueAfter(int32_t a, int32_t b) const;
  // -1, 1: by what does not depend on shares; 0: equal.
  int Compare(const PendingJob& a, const PendingJob& b) const;
  void PutBack();

  const ClusterSnapshot& snapshot_;
  std::vector<Queue> queues_;
  // Queues with jobs left, as a heap.
  std::vector<int32_t> heap_;
  // Queue and user of the last job; not in the heaps.
  int32_t open_queue_ = -1;
  User* open_user_ = nullptr;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_SERVING_ORDER_H_
