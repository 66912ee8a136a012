#ifndef COMERA_SERVER_COORDINATOR_SCHEDULE_GANG_SCHEDULER_H_
#define COMERA_SERVER_COORDINATOR_SCHEDULE_GANG_SCHEDULER_H_

#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/schedule/cluster_view.h"
#include "server/coordinator/schedule/start_chooser.h"
#include "server/scheduler/pass_memory.h"
#include "server/scheduler/scheduler.h"

namespace comera::server {

// Shows the cluster to the scheduler and carries out what it decides: gangs are
// placed, running ones are stopped to make room or to change their size, and
// waiting jobs are told why they wait. Not thread-safe.
class GangScheduler {
 public:
  // All must outlive it.
  GangScheduler(const CoordinatorOptions* options,
                const ClusterView::Tables& tables, JobLifecycle* lifecycle)
      : options_(options), tables_(tables), lifecycle_(lifecycle) {}

  // Records of an earlier coordinator were loaded.
  void MarkLoaded();
  // A pass could place something.
  void Request() { needed_ = true; }
  bool needed() const { return needed_; }
  // The same for what time alone changes: workers become suspect without a
  // word, and jobs end their minimum run time.
  void RequestByTime();

  // The cluster as a pass would see it.
  ClusterView View(absl::Time now) const;
  // Where a queued job would begin now.
  StartChoice Start(const JobEntry& entry, absl::Time now) const {
    return tables_.starts->Choose(entry, now);
  }
  // One pass.
  void Run(Operation* op);

 private:
  // Jobs that a client asked to pause while an attempt of theirs was ending.
  void PauseQueued(Operation* op);
  // Begins, continues and ends the waits for workers that hold checkpoints.
  void WatchStarts(Operation* op);
  void WaitForStart(const StartChoice& choice, JobEntry& entry, Operation* op);
  // The checkpoint is waited for no more: begins at step 0 if the job says so,
  // else has its owner decide.
  void LoseStart(const StartChoice& choice, JobEntry& entry, Operation* op);
  void Place(const ClusterView& view, const Placement& placement,
             Operation* op);
  // Has a member that can read the state be member 0, which reads it. False:
  // there is none, and the job waits for another chance.
  bool PutReaderFirst(JobEntry& entry, const v1::TrainingStateKey& state,
                      std::vector<MemberSlot>* gang, absl::Time now);
  // Says what the attempt that was just placed lost.
  void ReportLoss(const StartChoice& choice, JobEntry& entry, Operation* op);
  void Stop(const ClusterView& view, const StopOrder& order, Operation* op);
  void ShowWaitReasons(const ClusterView& view, const Decision& decision,
                       Operation* op);

  const CoordinatorOptions* const options_;
  const ClusterView::Tables tables_;
  JobLifecycle* const lifecycle_;
  bool needed_ = true;
  PassMemory memory_;
  // Some elastic job has fewer members than it wants.
  bool may_grow_ = false;
  // Since when slots were left over while no job waited for them.
  absl::Time cpu_spare_since_ = absl::InfiniteFuture();
  absl::Time gpu_spare_since_ = absl::InfiniteFuture();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SCHEDULE_GANG_SCHEDULER_H_
