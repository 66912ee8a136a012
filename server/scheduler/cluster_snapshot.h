#ifndef COMERA_SERVER_SCHEDULER_CLUSTER_SNAPSHOT_H_
#define COMERA_SERVER_SCHEDULER_CLUSTER_SNAPSHOT_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/job.pb.h"

namespace comera::server {

// All indices below are positions in the vectors of the same snapshot.

// A worker that can take members now: it is connected and in service.
struct WorkerSlots {
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
  // Whether jobs with a program of the user's own may run here.
  bool runs_programs = false;
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
  // Whether it has a program of the user's own, so that it needs workers that
  // run programs.
  bool program = false;
  // Slots that it was to have when running jobs were stopped for it, until it
  // starts (PassMemory). No reservation keeps it from as many.
  int32_t granted = 0;

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
  // InfiniteFuture if that is unknown, or if it is not believed (PassMemory).
  absl::Time expected_end = absl::InfiniteFuture();
};

// Times and limits of the scheduler.
struct SchedulerOptions {
  // A job is neither preempted nor resized before it had its slots this long.
  absl::Duration min_run_time = absl::Minutes(5);
  // How long a preempted job may take to save its state. Nobody is preempted
  // for room that comes free by itself within this.
  absl::Duration preemption_grace = absl::Minutes(2);
  // Jobs that wait for longer are served in order of acceptance among those of
  // their priority, as long as their queue has less than its share.
  absl::Duration patience = absl::Hours(6);
  // A waiting job that cannot start within this, even if all the jobs stop that
  // it may stop, does not keep others from preempting.
  absl::Duration hold_limit = absl::Minutes(30);
  // An elastic job grows when slots were left over for this long.
  absl::Duration grow_after = absl::Minutes(1);
  // A pass places at most this many gangs; `more` says that it was cut short.
  int32_t max_placements = 1000;
  // A pass plans preemption for at most this many jobs.
  int32_t max_plans = 64;
};

// Workers of a device that can take no members now.
struct WorkersOut {
  // Drained, or excluded after failures.
  int32_t drained = 0;
  // Known, but not connected.
  int32_t away = 0;
};

// Everything that the scheduler decides on.
struct ClusterSnapshot {
  absl::Time now;
  SchedulerOptions options;
  // Their order does not change by itself (it is that of the names).
  std::vector<WorkerSlots> workers;
  // Only for the reason why a job waits.
  WorkersOut cpu_out;
  WorkersOut gpu_out;
  std::vector<QueueShare> queues = {QueueShare()};
  std::vector<PendingJob> jobs;
  std::vector<RunningJob> running;
  // Since when slots were left over while no job waited for them.
  absl::Time cpu_spare_since = absl::InfiniteFuture();
  absl::Time gpu_spare_since = absl::InfiniteFuture();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_CLUSTER_SNAPSHOT_H_
