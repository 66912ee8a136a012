#ifndef COMERA_SERVER_SCHEDULER_PREEMPTION_H_
#define COMERA_SERVER_SCHEDULER_PREEMPTION_H_

#include <cstdint>
#include <vector>

#include "server/scheduler/scheduler.h"
#include "server/scheduler/serving_order.h"

namespace comera::server {

// Finds running jobs that make room for a waiting one, by the rules of
// scheduler.h. A running job is named by one order at most. Not thread-safe.
class PreemptionPlanner {
 public:
  // Both must outlive this.
  PreemptionPlanner(const ClusterSnapshot& snapshot, const ServingOrder& order);

  struct Need {
    int32_t job = 0;
    bool gpu = false;
    // Missing of the pool's room, and of the queue's.
    int32_t slots = 0;
    int32_t queue_processes = 0;
  };
  // Orders that together free what is needed; none: it cannot be had. They are
  // final: later plans count with them.
  std::vector<StopOrder> Plan(const Need& need);

 private:
  struct Victim {
    StopOrder order;
    int32_t freed = 0;        // ranks
    int32_t freed_slots = 0;  // in the pool that is asked for
  };

  bool IsEligible(const RunningJob& victim) const;
  bool MayStop(const RunningJob& victim, const PendingJob& job, bool owed,
               int32_t victims_queue_ranks) const;
  bool MayShrink(const RunningJob& victim, const PendingJob& job, bool owed,
                 int32_t victims_queue_ranks) const;
  void Sort();

  const ClusterSnapshot& snapshot_;
  const ServingOrder& order_;
  // Eligible running jobs, first victims first.
  std::vector<int32_t> victims_;
  bool sorted_ = false;
  std::vector<bool> ordered_;
  // By queue: ranks that orders took from it.
  std::vector<int32_t> taken_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_PREEMPTION_H_
