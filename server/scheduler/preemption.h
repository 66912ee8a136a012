#ifndef COMERA_SERVER_SCHEDULER_PREEMPTION_H_
#define COMERA_SERVER_SCHEDULER_PREEMPTION_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
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
    // Jobs that are expected to end by then are left alone: an earlier job
    // counts on their slots.
    absl::Time spare_until = absl::InfinitePast();
  };
  // Whether any plan may be possible: an upper bound that costs little.
  bool MayHelp(const Need& need);
  // Whether eligible jobs with slots of the pool could make room for a job of
  // this priority that is owed nothing.
  bool HasVictims(int32_t priority, bool gpu);
  // Whether the job may stop the running one, now or when that has run for
  // min_run_time.
  bool MayStop(const RunningJob& victim, const PendingJob& job) const;
  // Orders that together free what is needed; empty if that is impossible. They
  // are final: later plans count with them.
  std::vector<StopOrder> Plan(const Need& need);

 private:
  struct Victim {
    StopOrder order;
    int32_t freed = 0;        // processes
    int32_t freed_slots = 0;  // in the pool that is asked for
  };

  struct Rights {
    // The job is owed its slots.
    bool owed = false;
    // It may take the place of lower jobs in its queue's guarantee. A plan with
    // this right must leave the queue within it; otherwise the stopped jobs
    // would be owed their slots again, and come first.
    bool replaces = false;
  };

  bool IsEligible(const RunningJob& victim) const;
  Rights RightsOf(const PendingJob& job) const;
  bool MayStop(const RunningJob& victim, const PendingJob& job,
               const Rights& rights, int32_t victims_queue_processes) const;
  // How many slots of the pool eligible jobs of a lower priority have.
  int32_t SlotsBelow(int32_t priority, bool gpu) const;
  bool MayShrink(const RunningJob& victim, const PendingJob& job,
                 const Rights& rights, int32_t victims_queue_processes) const;
  std::vector<StopOrder> Plan(const Need& need, const Rights& rights);
  bool IsBarred(int32_t victim) const {
    return std::find(barred_.begin(), barred_.end(), victim) != barred_.end();
  }
  void Sort();

  const ClusterSnapshot& snapshot_;
  const ServingOrder& order_;
  // Eligible running jobs, first victims first.
  std::vector<int32_t> victims_;
  bool sorted_ = false;
  // Slots of the first of them, CPU and GPU; the first entry is 0.
  std::vector<int32_t> slots_[2];
  std::vector<bool> ordered_;
  // Victims that the present plan does without; few.
  std::vector<int32_t> barred_;
  // The number of processes that orders took from each queue.
  std::vector<int32_t> taken_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_PREEMPTION_H_
