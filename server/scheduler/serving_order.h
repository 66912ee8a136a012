#ifndef COMERA_SERVER_SCHEDULER_SERVING_ORDER_H_
#define COMERA_SERVER_SCHEDULER_SERVING_ORDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/scheduler/cluster_snapshot.h"
#include "server/scheduler/queue_use.h"
#include "server/scheduler/serving_tier.h"

namespace comera::server {

// Hands out the queued jobs of a snapshot in serving order (scheduler.h), which
// depends on what was placed before: a tier of jobs that are owed their slots,
// then one of all others. Not thread-safe.
class ServingOrder {
 public:
  // The snapshot must outlive this.
  explicit ServingOrder(const ClusterSnapshot& snapshot);
  ServingOrder(const ServingOrder&) = delete;
  ServingOrder& operator=(const ServingOrder&) = delete;

  // The next job, each once; -1: there is none.
  int32_t Next();
  // Whether the last job came with those that are owed their slots.
  bool in_owed_tier() const { return !others_; }
  // Counts with the job's start, or with room that is being made for it; called
  // before the next Next().
  void Placed(int32_t job, int32_t processes) { use_.Start(job, processes); }
  void Claimed(int32_t job, int32_t processes) {
    use_.Claim(snapshot_.jobs[job].queue, processes);
  }
  // Counts with the growth of a running job; called after the last Next().
  void Placed(const RunningJob& job, int32_t processes) {
    use_.Grow(job.queue, processes);
  }

  // The number of processes that the queue's jobs have.
  int32_t queue_processes(int32_t queue) const { return use_.processes(queue); }
  // The part of the queue's guarantee that it neither uses nor has claimed.
  int32_t Owed(int32_t queue) const { return use_.Owed(queue); }
  // Whether the queue stays within its guarantee with this many more.
  bool IsOwed(int32_t queue, int32_t processes) const {
    return processes <= Owed(queue);
  }
  bool UsesGpu(const PendingJob& job) const { return use_.UsesGpu(job); }

  // Why `first` is served before `second`, with the processes that run now.
  std::string Why(int32_t first, int32_t second) const;

 private:
  // Jobs that their queue's guarantee covers, except those that leave it to a
  // wider job of their queue.
  std::vector<int32_t> FindOwed() const;
  // Whether the wide job, which the guarantee does not cover, is to get the
  // room that its queue has before the other one.
  bool LeavesRoomFor(const PendingJob& owed, const PendingJob& wide) const;

  const ClusterSnapshot& snapshot_;
  QueueUse use_;
  // Free slots and those that stopping jobs will leave, CPU and GPU.
  std::vector<int32_t> room_;
  std::vector<bool> handed_out_;
  ServingTier owed_;
  // Made when the first tier is through.
  std::optional<ServingTier> others_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_SERVING_ORDER_H_
