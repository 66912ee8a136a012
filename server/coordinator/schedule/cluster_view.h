#ifndef COMERA_SERVER_COORDINATOR_SCHEDULE_CLUSTER_VIEW_H_
#define COMERA_SERVER_COORDINATOR_SCHEDULE_CLUSTER_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/queue/queue_table.h"
#include "server/coordinator/schedule/start_chooser.h"
#include "server/coordinator/worker/worker_table.h"
#include "server/scheduler/pass_memory.h"
#include "server/scheduler/scheduler.h"

namespace comera::server {

// The cluster as the scheduler sees it: a snapshot of numbers, and the workers
// and jobs for which its indices stand. Valid until a table changes.
class ClusterView {
 public:
  struct Options {
    SchedulerOptions scheduler;
    // A worker that is silent for longer gets no new members.
    absl::Duration suspect_after;
    // A gang does not wait for slots that have been unfit for longer.
    absl::Duration unfit_grace;
    absl::Time cpu_spare_since = absl::InfiniteFuture();
    absl::Time gpu_spare_since = absl::InfiniteFuture();
    // Null: there were no earlier passes.
    const PassMemory* memory = nullptr;
  };
  struct Tables {
    const JobTable* jobs;
    const WorkerTable* workers;
    const QueueTable* queues;
    const StartChooser* starts;
  };

  // Notes what the running jobs tell about their ends.
  static void Hear(const JobTable& jobs, absl::Time now, PassMemory* memory);

  ClusterView(const Tables& tables, const Options& options, absl::Time now);

  const ClusterSnapshot& snapshot() const { return snapshot_; }
  // What the snapshot's indices stand for.
  const WorkerState& worker(int32_t index) const { return *workers_[index]; }
  JobEntry& queued(int32_t index) const { return *queued_[index]; }
  JobEntry& running(int32_t index) const { return *running_[index]; }
  // The index of a queued job; -1: it waits for its checkpoint, and is not in
  // the snapshot, so that it holds nobody back.
  int32_t PositionOf(const JobEntry& entry) const;

  // Adds a queued job that is not in the table, as the last one; returns its
  // index in the snapshot.
  int32_t AddQueued(const JobEntry& entry);

 private:
  void AddQueues(const QueueTable& queues);
  // Counts a worker that can take no members.
  void CountOut(const WorkerState& worker);
  void AddWorkers(const WorkerTable& workers);
  void AddSlots(const JobTable& jobs);
  void AddRunning(const JobTable& jobs);
  PendingJob ToPending(const JobEntry& entry);
  // -1: the worker is not in the snapshot.
  int32_t WorkerNumber(const std::string& id) const;
  int32_t UserNumber(const std::string& user);
  int32_t QueueNumber(const std::string& queue);

  const Options options_;
  const absl::Time now_;
  ClusterSnapshot snapshot_;
  std::vector<const WorkerState*> workers_;
  std::vector<JobEntry*> queued_;
  std::vector<JobEntry*> running_;
  absl::flat_hash_map<std::string, int32_t> worker_numbers_;
  absl::flat_hash_map<std::string, int32_t> queue_numbers_;
  absl::flat_hash_map<std::string, int32_t> user_numbers_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SCHEDULE_CLUSTER_VIEW_H_
