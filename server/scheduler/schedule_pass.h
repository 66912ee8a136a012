#ifndef COMERA_SERVER_SCHEDULER_SCHEDULE_PASS_H_
#define COMERA_SERVER_SCHEDULER_SCHEDULE_PASS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "server/scheduler/cluster_snapshot.h"
#include "server/scheduler/decision.h"
#include "server/scheduler/preemption.h"
#include "server/scheduler/reservation.h"
#include "server/scheduler/serving_order.h"
#include "server/scheduler/slot_pool.h"

namespace comera::server {

// One walk over the queued jobs in serving order: the work behind Scheduler. An
// object is used once.
class SchedulePass {
 public:
  // `probe` is a queued job to examine, which makes the walk leave nobody out;
  // -1: there is none. The snapshot must outlive this.
  SchedulePass(const ClusterSnapshot& snapshot, int32_t probe);

  Decision Run();

  // What Run() found when it was the turn of the probe.
  struct Probe {
    // Queued jobs for the same device, in the order in which they came.
    std::vector<int32_t> ahead;
    int32_t processes_now = 0;
    WaitReason reason;
    // The number of slots that it could have got: free ones, and within its
    // queue's limit.
    int32_t free = 0;
    int32_t queue_room = 0;
    std::optional<Reservation> head;
    std::optional<Reservation> queue_head;
  };
  const Probe& probe() const { return found_; }
  bool UsesGpu(const PendingJob& job) const { return order_.UsesGpu(job); }
  int32_t fit_slots(bool gpu) const {
    return pools_[gpu].total - pools_[gpu].lasting_unfit;
  }
  int32_t free_slots(bool gpu) const { return pools_[gpu].free_at_start; }
  const ServingOrder& order() const { return order_; }

 private:
  struct Pool {
    SlotPool slots;
    int32_t total = 0;
    // The slots on workers that run programs.
    int32_t total_for_programs = 0;
    int32_t unfit = 0;
    int32_t lasting_unfit = 0;
    int32_t free_at_start = 0;
    // Slots that stopping jobs will leave, and what waiting jobs count on.
    int32_t coming = 0;
    int32_t claimed = 0;
    std::optional<Reservation> head;
    // The job that it is for, and whether it is owed its slots.
    int32_t head_job = -1;
    bool head_is_owed = false;
    // Whether that cannot start within hold_limit; found when it is asked for.
    std::optional<bool> head_is_far;
    // The guarantees of all queues fit in, so that no job that is owed its
    // slots takes those of another queue.
    bool covers_guarantees = true;
    bool waits = false;
    // The smallest number of processes that any queued job for it needs.
    int32_t least_need = 1 << 30;
    // The expected ends of jobs that were placed in this pass.
    std::vector<Release> releases;

    // Free slots that nobody counts on.
    int32_t free() const {
      return slots.free() - std::max(0, claimed - coming);
    }
    int32_t coming_unclaimed() const { return std::max(0, coming - claimed); }
  };
  struct Queue {
    // Processes of its jobs that are stopping, and what waiting jobs count on.
    int32_t coming = 0;
    int32_t claimed = 0;
    std::optional<Reservation> head;
    std::vector<Release> releases;
    // The most urgent job behind a head, and the fewest missing slots, for
    // which no room could be made: less urgent ones that miss as many have no
    // chance.
    int32_t hopeless_priority = std::numeric_limits<int32_t>::min();
    int32_t hopeless_slots = std::numeric_limits<int32_t>::max();
  };

  void Visit(int32_t job);
  // The largest number of processes that the job can start with in this many
  // slots; 0: none.
  int32_t Fitting(const PendingJob& job, int32_t room) const;
  int32_t Startable(const PendingJob& job, const Pool& pool,
                    const Queue& queue);
  void Start(int32_t job, int32_t processes);
  // Whether the reservation of the pool's head holds for the job, which is the
  // one being visited.
  bool IsBound(const PendingJob& job);
  // Whether the pool's head could not start within hold_limit even if all jobs
  // stopped that it may stop.
  bool HeadIsFar(bool gpu);
  // The part of this many slots that the head leaves to a job with that end.
  static int32_t LeftByHead(const Pool& pool, const PendingJob& job,
                            int32_t slots, absl::Time end);
  // Has running jobs make room for the job; returns false if they cannot.
  bool ClaimRoom(int32_t job, int32_t queue_room);
  // Orders running jobs to stop so that the job gets what it misses; returns
  // false if they cannot help. `bound`: it is behind a head.
  bool StopOthers(const PreemptionPlanner::Need& missing, bool bound);
  void Reserve(int32_t job, int32_t queue_room);
  void Wait(int32_t job, const WaitReason& reason);
  void Grow();
  bool Closed(bool gpu);
  WaitReason Reason(WaitReason::Kind kind, const PendingJob& job) const;
  int32_t QueueRoom(int32_t queue) const {
    return snapshot_.queues[queue].limit - order_.queue_processes(queue);
  }
  // The part of QueueRoom() on which no waiting job counts.
  int32_t QueueFree(int32_t queue) const {
    return QueueRoom(queue) -
           std::max(0, queues_[queue].claimed - queues_[queue].coming);
  }
  // With `guess`, jobs whose end is unknown are given one.
  std::vector<Release> PoolReleases(bool gpu, bool guess) const;
  std::vector<Release> QueueReleases(int32_t queue) const;
  // The time at which a running job is taken to end.
  absl::Time EndOf(const RunningJob& job, bool guess) const;
  absl::Time EndIfStarted(const PendingJob& job) const {
    return snapshot_.now + job.duration;
  }

  const ClusterSnapshot& snapshot_;
  const int32_t probe_;
  ServingOrder order_;
  PreemptionPlanner planner_;
  Pool pools_[2];  // CPU, GPU
  std::vector<Queue> queues_;
  // Running jobs whose room is counted in `coming`.
  std::vector<bool> leaving_;
  // The queued jobs that are still to be visited, by priority.
  std::map<int32_t, int32_t> left_;
  int32_t plans_ = 0;
  Probe found_;
  Decision decision_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_SCHEDULE_PASS_H_
