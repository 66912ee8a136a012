#ifndef COMERA_SERVER_COORDINATOR_SYNCHRONIZE_SYNCHRONIZE_EXCHANGE_H_
#define COMERA_SERVER_COORDINATOR_SYNCHRONIZE_SYNCHRONIZE_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/synchronize/assignment_writer.h"
#include "server/coordinator/synchronize/held_calls.h"
#include "server/coordinator/synchronize/member_reports.h"
#include "server/coordinator/worker/checkpoint_peers.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// The order in which a Synchronize request is applied, and its answer: at once
// if there is something to say, else when there is (see HeldCalls). Not
// thread-safe.
class SynchronizeExchange {
 public:
  // The other parts of the coordinator; all must outlive it.
  struct Parts {
    const CoordinatorOptions* options;
    JobTable* jobs;
    WorkerTable* workers;
    JobLifecycle* lifecycle;
    MemberReports* members;
    CheckpointPeers* peers;
    const AssignmentWriter* assignments;
    HeldCalls* held_calls;
  };
  explicit SynchronizeExchange(const Parts& parts) : parts_(parts) {}

  // `log_acks` go into the answer as they are.
  void Run(const v1::SynchronizeRequest& request,
           const std::vector<v1::LogAck>& log_acks, int64_t call,
           Operation* op);

 private:
  // The worker of a valid request; null if the call was answered with an error:
  // InvalidArgument, ResourceExhausted, Aborted (a newer incarnation).
  WorkerState* Admit(const v1::SynchronizeRequest& request, int64_t call,
                     Operation* op);
  // Applies the worker's description of itself.
  void ApplyWorker(const v1::SynchronizeRequest& request, WorkerState& worker,
                   Operation* op);
  void AnswerOrHold(const v1::SynchronizeRequest& request, WorkerState& worker,
                    v1::SynchronizeResponse response, int64_t call,
                    Operation* op);

  const Parts parts_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SYNCHRONIZE_SYNCHRONIZE_EXCHANGE_H_
