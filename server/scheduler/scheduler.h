#ifndef COMERA_SERVER_SCHEDULER_SCHEDULER_H_
#define COMERA_SERVER_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "server/scheduler/wait_reason.h"

namespace comera::server {

// All indices below are positions in the vectors of the same snapshot.

// A worker that can take members now: it is connected and in service.
struct WorkerRoom {
  // Position among the racks, from 0; -1: unknown.
  int32_t rack = -1;
  // Indices of free slots, ascending, and the number of all slots, by device.
  std::vector<int32_t> free_cpu;
  std::vector<int32_t> free_gpu;
  int32_t total_cpu = 0;
  int32_t total_gpu = 0;
  // Slots that are not busy and may not take a member either.
  int32_t unfit_cpu = 0;
  int32_t unfit_gpu = 0;
  // Unfit slots that have been so for so long that nobody should wait for them.
  int32_t lasting_unfit_cpu = 0;
  int32_t lasting_unfit_gpu = 0;
};

// A queue's rights.
struct QueueShare {
  int32_t guaranteed_processes = 0;
  // The most it may use, by its maximum or because it may not borrow.
  int32_t limit = 1 << 30;
  double weight = 1;
};

// A queued job.
struct PendingJob {
  // Order of acceptance; unique.
  int64_t serial = 0;
  int32_t priority = 0;
  int32_t queue = 0;
  // Users are numbered from 0; the same number in two queues is one user.
  int32_t user = 0;
  v1::ResourceSpec::Device device = v1::ResourceSpec::ANY;
  // The number of processes. An elastic job has at most this many, and `sizes`
  // holds all numbers that it can run with, descending; it is empty for others.
  int32_t processes = 1;
  std::vector<int32_t> sizes;
  // Workers of the last attempt, member 0's first; -1: not in the snapshot.
  std::vector<int32_t> last_workers;
  absl::Time waiting_since = absl::InfiniteFuture();
  // How long it is expected to run; infinite if that is unknown.
  absl::Duration duration = absl::InfiniteDuration();
  // It is not started earlier, but keeps its place in the order.
  absl::Time not_before = absl::InfinitePast();
  // It was stopped to change its size, and goes on before others start.
  bool resizing = false;

  int32_t min_processes() const {
    return sizes.empty() ? processes : sizes.back();
  }
};

// A job that holds slots.
struct RunningJob {
  int64_t serial = 0;
  int32_t priority = 0;
  int32_t queue = 0;
  int32_t user = 0;
  bool gpu = false;
  int32_t processes = 1;
  // Processes on workers of the snapshot, whose slots can be used again.
  int32_t usable_processes = 1;
  // See PendingJob.
  std::vector<int32_t> sizes;
  bool preemptible = true;
  // Its slots come free soon, except as many as it will go on with.
  bool stopping = false;
  int32_t kept_processes = 0;
  // When it was placed.
  absl::Time started;
  // InfiniteFuture if that is unknown.
  absl::Time expected_end = absl::InfiniteFuture();
};

struct SchedulerOptions {
  // A job is neither preempted nor resized before it had its slots this long.
  absl::Duration min_run_time = absl::Minutes(5);
  // How long a preempted job may take to save its state. Nobody is preempted
  // for room that comes free by itself within this.
  absl::Duration preemption_grace = absl::Minutes(2);
  // Jobs that wait for longer are served in order of acceptance among those of
  // their priority, whatever the shares are.
  absl::Duration patience = absl::Hours(6);
  // An elastic job grows when slots were left over for this long.
  absl::Duration grow_after = absl::Minutes(1);
  // A pass places at most this many gangs; `more` says that it was cut short.
  int32_t max_placements = 1000;
  // A pass plans preemption for at most this many jobs.
  int32_t max_plans = 64;
};

struct ClusterSnapshot {
  absl::Time now;
  SchedulerOptions options;
  // Their order does not change by itself (it is that of the names).
  std::vector<WorkerRoom> workers;
  std::vector<QueueShare> queues = {QueueShare()};
  std::vector<PendingJob> jobs;
  std::vector<RunningJob> running;
  // Since when slots were left over while no job waited for them.
  absl::Time cpu_spare_since = absl::InfiniteFuture();
  absl::Time gpu_spare_since = absl::InfiniteFuture();
};

struct MemberPlace {
  int32_t worker = 0;
  int32_t slot = 0;
};

// The place of each member of a gang.
struct Placement {
  int32_t job = 0;
  std::vector<MemberPlace> members;
};

// A running job that is to be stopped after a checkpoint.
struct StopOrder {
  enum Kind { kPreempt, kShrink, kGrow };
  Kind kind = kPreempt;
  int32_t running = 0;
  // The number of processes to go on with, for kShrink and kGrow.
  int32_t processes = 0;
  // The job that needs the slots; -1 for kGrow.
  int32_t job = -1;
};

// A job that stays queued.
struct WaitingJob {
  int32_t job = 0;
  WaitReason reason;
};

struct Decision {
  std::vector<Placement> placements;
  std::vector<StopOrder> stops;
  std::vector<WaitingJob> waiting;
  // Slots are left over and nobody waits for them.
  bool cpu_spare = false;
  bool gpu_spare = false;
  // The pass was cut short, and another one could place more.
  bool more = false;
};

// An explanation of where one queued job stands.
struct Explanation {
  // The number of processes that it would start with now; 0: it waits.
  int32_t processes_now = 0;
  // Its position among the queued jobs for the same device, from 1.
  int32_t position = 1;
  // The first of the jobs ahead, in serving order, and why each is ahead.
  struct Ahead {
    int32_t job = 0;
    std::string why;
  };
  std::vector<Ahead> ahead;
  WaitReason reason;
  // A guess, if one is possible: the jobs ahead start in order, and each takes
  // as long as is expected of it.
  std::optional<absl::Time> expected_start;
  struct Smaller {
    int32_t processes = 0;
    bool now = false;
    std::optional<absl::Time> expected_start;
  };
  std::vector<Smaller> smaller;
  // Slots of the device that may take members, and those that are free.
  int32_t fit_slots = 0;
  int32_t free_slots = 0;
};

// Decides which queued jobs start now and where, and which running ones make
// room for them. Stateless; thread-safe; equal snapshots give equal decisions.
//
// Words: a *pool* is all slots of one device. A job is *owed* its slots while
// its queue stays within its guarantee with them. The *head* of a pool is the
// first job in serving order that cannot start; slots are *reserved* for it at
// the time when the running jobs are expected to have left enough.
//
// Serving order: jobs that are owed come first; then priority counts; then jobs
// that lost patience come, by acceptance; then the queue's processes over its
// weight count, then the user's processes in the queue, then acceptance.
//
// A job gets slots for all its processes or for none (an elastic one: for the
// largest of its sizes that fits). Gangs fill the last attempt's workers, else
// one machine, else one rack, else as few racks and machines as possible.
// Behind a head, a job starts only if it is expected to end before the
// reservation, or leaves the reserved slots alone. A job larger than its pool,
// or than its queue's limit, holds nobody back.
//
// Preemption: a job that does not fit may take the room that is free or coming
// free together with that of running jobs which had their slots for
// min_run_time: by shrinking elastic jobs of at most its priority, then by
// stopping jobs of lower priority, and, if it is owed, jobs of queues above
// their guarantee. Jobs of other queues within their guarantee are safe from
// jobs that are not owed. Hence no two jobs ever take each other's room.
// Victims: lowest priority first, then the youngest; as few as do.
class Scheduler {
 public:
  static Decision Decide(const ClusterSnapshot& snapshot);
  // Says also what the job would get with each of `sizes` as its number of
  // processes.
  static Explanation Explain(const ClusterSnapshot& snapshot, int32_t job,
                             const std::vector<int32_t>& sizes);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_SCHEDULER_H_
