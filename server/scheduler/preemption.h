#ifndef COMERA_SERVER_SCHEDULER_PREEMPTION_H_
#define COMERA_SERVER_SCHEDULER_PREEMPTION_H_

#include <cstdint>
#include <vector>

#include "server/scheduler/cluster_snapshot.h"
#include "server/scheduler/decision.h"
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
    // How many slots of the pool are missing, and how many processes the queue
    // may not have.
    int32_t slots = 0;
    int32_t queue_processes = 0;
  };
  // Orders that together free what is needed; empty if that is impossible. They
  // are final: later plans count with them.
  std::vector<StopOrder> Plan(const Need& need);

 private:
  struct Victim {
    StopOrder order;
    int32_t freed = 0;        // processes
    int32_t freed_slots = 0;  // in the pool that is asked for
  };

  bool IsEligible(const RunningJob& victim) const;
  bool MayStop(const RunningJob& victim, const PendingJob& job, bool owed,
               int32_t victims_queue_processes) const;
  bool MayShrink(const RunningJob& victim, const PendingJob& job, bool owed,
                 int32_t victims_queue_processes) const;
  void Sort();

  const ClusterSnapshot& snapshot_;
  const ServingOrder& order_;
  // Eligible running jobs, first victims first.
  std::vector<int32_t> victims_;
  bool sorted_ = false;
  std::vector<bool> ordered_;
  // The number of processes that orders took from each queue.
  std::vector<int32_t> taken_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_PREEMPTION_H_
