#ifndef COMERA_SERVER_COORDINATOR_WORKER_CHECKPOINT_PEERS_H_
#define COMERA_SERVER_COORDINATOR_WORKER_CHECKPOINT_PEERS_H_

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// Knows which workers hold jobs' training states, and decides where member 0 of
// a gang copies its checkpoints to and fetches them from. Not thread-safe.
class CheckpointPeers {
 public:
  // Both must outlive it.
  CheckpointPeers(JobTable* jobs, WorkerTable* workers)
      : jobs_(jobs), workers_(workers) {}

  // Applies what the worker holds, and tells it which jobs have ended, so that
  // it need not keep their states.
  void ApplyHeld(const v1::SynchronizeRequest& request, WorkerState& worker,
                 v1::SynchronizeResponse* response, Operation* op);
  // Fills in the peers of member 0, which runs on `worker`.
  void AssignPeers(const JobEntry& entry, const WorkerState& worker,
                   v1::MemberAssignment* assignment) const;
  // Whether the job could continue from its newest checkpoint: it has none, a
  // shared store has it, or a reachable worker.
  bool HasReachableHolder(const v1::Job& job) const;

  // Workers came or went, or have another address.
  void MarkPeersChanged() { peers_changed_ = true; }
  // If they have, gives the active jobs' workers new answers, once in a while.
  void Announce(Operation* op);

 private:
  JobTable* const jobs_;
  WorkerTable* const workers_;
  bool peers_changed_ = false;
  absl::Time next_announcement_ = absl::InfinitePast();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_CHECKPOINT_PEERS_H_
