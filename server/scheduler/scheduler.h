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

// A worker that can take ranks now: connected, in service.
struct WorkerRoom {
  // Position among the racks, from 0; -1: unknown.
  int32_t rack = -1;
  // Indices of free slots, ascending, and the number of all slots, by device.
  std::vector<int32_t> free_cpu;
  std::vector<int32_t> free_gpu;
  int32_t total_cpu = 0;
  int32_t total_gpu = 0;
  // Of all slots, those that are neither busy nor may take a rank.
  int32_t unfit_cpu = 0;
  int32_t unfit_gpu = 0;
  // Of those, the ones that have been unfit for so long that nobody should wait
  // for them.
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
  // Elastic jobs: what it would have at most, and in `sizes` all numbers of
  // ranks that it can run with, descending. Others: `sizes` is empty.
  int32_t ranks = 1;
  std::vector<int32_t> sizes;
  // Workers of the last attempt, rank 0's first; -1: not in the snapshot.
  std::vector<int32_t> last_workers;
  absl::Time waiting_since = absl::InfiniteFuture();
  // Infinite: unknown.
  absl::Duration duration = absl::InfiniteDuration();
  // In back-off until then: keeps its place, and its room from then on.
  absl::Time not_before = absl::InfinitePast();
  // Was stopped to change its size: goes on before others start.
  bool resizing = false;

  int32_t min_processes() const { return sizes.empty() ? ranks : sizes.back(); }
};

// A job that holds slots.
struct RunningJob {
  int64_t serial = 0;
  int32_t priority = 0;
  int32_t queue = 0;
  int32_t user = 0;
  bool gpu = false;
  int32_t ranks = 1;
  // Of its slots, those on workers of the snapshot: they can be used again.
  int32_t usable_ranks = 1;
  // As in PendingJob.
  std::vector<int32_t> sizes;
  bool preemptible = true;
  // Its slots come free soon, but for those that it will go on with.
  bool stopping = false;
  int32_t kept_ranks = 0;
  // When it was placed.
  absl::Time started;
  // InfiniteFuture: unknown.
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
  // Elastic jobs grow when room was left over for this long.
  absl::Duration grow_after = absl::Minutes(1);
  // A pass places at most so many gangs; `more` tells that it was cut short.
  int32_t max_placements = 1000;
  // And plans preemption for at most so many jobs.
  int32_t max_plans = 64;
};

struct ClusterSnapshot {
  absl::Time now;
  SchedulerOptions options;
  // In an order that does not change by itself (by name).
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

// A whole gang, by rank.
struct Placement {
  int32_t job = 0;
  std::vector<MemberPlace> ranks;
};

// A running job that is to be stopped after a checkpoint.
struct StopOrder {
  enum Kind { kPreempt, kShrink, kGrow };
  Kind kind = kPreempt;
  int32_t running = 0;
  // kShrink, kGrow: ranks to go on with.
  int32_t ranks = 0;
  // The job that needs the room; -1: none (kGrow).
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
  // More could be placed: decide again.
  bool more = false;
};

// Where one queued job stands.
struct Explanation {
  // Ranks that it would be placed with now; 0: it waits.
  int32_t processes_now = 0;
  // From 1, among the queued jobs for the same device.
  int32_t position = 1;
  // The first ahead, in serving order, and why each is.
  struct Ahead {
    int32_t job = 0;
    std::string why;
  };
  std::vector<Ahead> ahead;
  WaitReason reason;
  // Nothing: unknown. A guess: the jobs ahead start in order, each takes as
  // long as is expected of it.
  std::optional<absl::Time> expected_start;
  struct Smaller {
    int32_t ranks = 0;
    bool now = false;
    std::optional<absl::Time> expected_start;
  };
  std::vector<Smaller> smaller;
  // Slots of the device.
  int32_t fit_slots = 0;
  int32_t free_slots = 0;
};

// Decides which queued jobs start now and where, and which running ones make
// room for them. Stateless; thread-safe; equal snapshots give equal decisions.
//
// Words: a* pool* is all slots of one device. A job is* owed* its ranks while
// its queue stays within its guarantee with them. The* head* of a pool is the
// first job in serving order that cannot start; room is* reserved* for it at
// the time when the running jobs are expected to have left enough.
//
// Serving order: jobs that are owed; then by priority; then those that lost
// patience, by acceptance; then by the queue's ranks in use over its weight,
// then by the user's ranks in use in the queue, then by acceptance.
//
// A job gets all its ranks or none (elastic: the most of its sizes that there
// is room for). Gangs fill the last attempt's workers, else one machine, else
// one rack, else as few racks and machines as possible. Behind a head, a job
// starts only if it is expected to end before the reservation, or leaves the
// reserved slots alone. A job larger than its pool, or than its queue's limit,
// holds nobody back.
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
  // Also what the job would get with each of `sizes` as its number of ranks.
  static Explanation Explain(const ClusterSnapshot& snapshot, int32_t job,
                             const std::vector<int32_t>& sizes);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_SCHEDULER_H_
