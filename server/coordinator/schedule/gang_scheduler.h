#ifndef COMERA_SERVER_COORDINATOR_SCHEDULE_GANG_SCHEDULER_H_
#define COMERA_SERVER_COORDINATOR_SCHEDULE_GANG_SCHEDULER_H_

#include "absl/time/time.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/schedule/cluster_view.h"
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
  void MarkLoaded(absl::Time now);
  // A pass could place something.
  void Request() { needed_ = true; }
  bool needed() const { return needed_; }
  // The same for what time alone changes: workers become suspect without a
  // word, and jobs end their minimum run time.
  void RequestByTime();

  // The cluster as a pass would see it.
  ClusterView View(absl::Time now) const;
  // One pass.
  void Run(Operation* op);

 private:
  // Jobs that a client asked to pause while an attempt of theirs was ending.
  void PauseQueued(Operation* op);
  void Place(const ClusterView& view, const Placement& placement,
             Operation* op);
  void Stop(const ClusterView& view, const StopOrder& order, Operation* op);
  void ShowWaitReasons(const ClusterView& view, const Decision& decision,
                       Operation* op);

  const CoordinatorOptions* const options_;
  const ClusterView::Tables tables_;
  JobLifecycle* const lifecycle_;
  bool needed_ = true;
  // Some elastic job has fewer members than it wants.
  bool may_grow_ = false;
  absl::Time holders_known_at_ = absl::InfinitePast();
  // Since when slots were left over while no job waited for them.
  absl::Time cpu_spare_since_ = absl::InfiniteFuture();
  absl::Time gpu_spare_since_ = absl::InfiniteFuture();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SCHEDULE_GANG_SCHEDULER_H_
