#ifndef COMERA_SERVER_SCHEDULER_QUEUE_USE_H_
#define COMERA_SERVER_SCHEDULER_QUEUE_USE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "server/scheduler/cluster_snapshot.h"

namespace comera::server {

// The processes that queues and their users have at present, compared with
// their rights. It starts with the running jobs of a snapshot; a pass counts
// what it adds. Not thread-safe.
class QueueUse {
 public:
  // The snapshot must outlive this.
  explicit QueueUse(const ClusterSnapshot& snapshot);

  // Counts with the start of a queued job.
  void Start(int32_t job, int32_t processes);
  // Counts with a queued job for which room is being made.
  void Claim(int32_t queue, int32_t processes) {
    queues_[queue].claimed += processes;
  }
  // Counts with the growth of a running job.
  void Grow(int32_t queue, int32_t processes) {
    queues_[queue].processes += processes;
  }

  int32_t processes(int32_t queue) const { return queues_[queue].processes; }
  // The processes that the queue has on one device.
  int32_t pool_processes(int32_t queue, bool gpu) const {
    return queues_[queue].pools[gpu].processes;
  }
  // Processes of the queued job's user in its queue.
  int32_t user_processes(int32_t job) const {
    return users_[user_of_[job]].processes;
  }
  // A number for the queued job's user in its queue, from 0.
  int32_t user(int32_t job) const { return user_of_[job]; }
  int32_t users() const { return static_cast<int32_t>(users_.size()); }
  // Whether the job takes GPU slots: ANY means so where the cluster has some.
  bool UsesGpu(const PendingJob& job) const {
    return job.device == v1::ResourceSpec::GPU ||
           (job.device == v1::ResourceSpec::ANY && has_gpus_);
  }

  // The part of the guarantee that the queue neither uses nor has claimed.
  int32_t Owed(int32_t queue) const {
    return snapshot_.queues[queue].guaranteed_processes -
           queues_[queue].processes - queues_[queue].claimed;
  }
  // Processes over weight.
  double Share(int32_t queue) const {
    return queues_[queue].processes / snapshot_.queues[queue].weight;
  }

  bool HasLostPatience(const PendingJob& job) const {
    return snapshot_.now - job.waiting_since > snapshot_.options.patience;
  }
  // The queued job has lost patience, and its queue has less of the pool than
  // its weight gives it among the queues that want some.
  bool IsDue(int32_t job) const;
  // The same for the part of its user among those of the queue.
  bool IsDueInQueue(int32_t job) const;

 private:
  struct Pool {
    int32_t processes = 0;
    // The fair part of the pool's slots, and the number of users that want one.
    double fair = 0;
    int32_t users = 0;
  };
  struct Queue {
    int32_t processes = 0;
    int32_t claimed = 0;
    Pool pools[2];  // CPU, GPU
  };
  struct User {
    int32_t processes = 0;
    bool wants[2] = {false, false};
  };

  const ClusterSnapshot& snapshot_;
  bool has_gpus_ = false;
  std::vector<Queue> queues_;
  // Users of queues, sorted by (queue, user).
  std::vector<User> users_;
  std::vector<int32_t> user_of_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_QUEUE_USE_H_
