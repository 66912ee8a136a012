#ifndef COMERA_SERVER_COORDINATOR_SYNCHRONIZE_WORKER_MONITOR_H_
#define COMERA_SERVER_COORDINATOR_SYNCHRONIZE_WORKER_MONITOR_H_

#include <string>

#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/synchronize/held_calls.h"
#include "server/coordinator/worker/checkpoint_peers.h"
#include "server/coordinator/worker/mass_silence.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// Watches silent workers: has them probed, gives up the members of those that
// stay silent or whose process is gone, and forgets those that stay away. While
// most workers are silent together, only those whose process is gone are given
// up. Not thread-safe.
class WorkerMonitor {
 public:
  // All must outlive it.
  WorkerMonitor(const CoordinatorOptions* options, WorkerTable* workers,
                JobLifecycle* lifecycle, CheckpointPeers* peers,
                HeldCalls* held_calls)
      : options_(options),
        workers_(workers),
        lifecycle_(lifecycle),
        peers_(peers),
        held_calls_(held_calls),
        mass_silence_(options, workers) {}

  // Checks all workers; answers held calls whose time is up.
  void Check(Operation* op);
  // The worker's machine says that it has no such process. Ignored if the
  // worker was heard since.
  void ConfirmExit(const std::string& id, const std::string& incarnation,
                   Operation* op);
  // Most workers are silent together.
  bool mass_silence() const { return mass_silence_.active(); }
  // Nobody is given up for silence now.
  bool gives_nobody_up(absl::Time now) const {
    return mass_silence_.holds(now);
  }

 private:
  void CheckSilence(WorkerState& worker, Operation* op);
  void ForgetAway(Operation* op);

  const CoordinatorOptions* const options_;
  WorkerTable* const workers_;
  JobLifecycle* const lifecycle_;
  CheckpointPeers* const peers_;
  HeldCalls* const held_calls_;
  MassSilence mass_silence_;
  absl::Time next_look_ = absl::InfinitePast();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SYNCHRONIZE_WORKER_MONITOR_H_
