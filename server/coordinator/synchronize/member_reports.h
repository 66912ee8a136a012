#ifndef COMERA_SERVER_COORDINATOR_SYNCHRONIZE_MEMBER_REPORTS_H_
#define COMERA_SERVER_COORDINATOR_SYNCHRONIZE_MEMBER_REPORTS_H_

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/failure_recorder.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// Applies what a worker reports of its member processes to their gangs. Not
// thread-safe.
class MemberReports {
 public:
  // All must outlive it. A wanted member may be missing from its worker's
  // report for `missing_after`.
  MemberReports(absl::Duration missing_after, JobTable* jobs,
                WorkerTable* workers, FailureRecorder* failures,
                JobLifecycle* lifecycle)
      : missing_after_(missing_after),
        jobs_(jobs),
        workers_(workers),
        failures_(failures),
        lifecycle_(lifecycle) {}

  // Applies the listed members' states, finds those that are missing or hang,
  // and lets their jobs go on.
  void Apply(const v1::SynchronizeRequest& request, WorkerState& worker,
             Operation* op);

  // Copies what members have written for their gangs' rendezvous.
  void ApplyRendezvous(const v1::SynchronizeRequest& request, Operation* op);

  // Tells the worker which of its exited members it may forget, and which of
  // them it must still upload the models of.
  void AcknowledgeExits(const v1::SynchronizeRequest& request,
                        v1::SynchronizeResponse* response);

 private:
  void ApplyStatus(const v1::MemberStatus& status, JobEntry& entry,
                   Operation* op);
  void ApplyExit(const v1::MemberStatus& status, JobEntry& entry,
                 Operation* op);
  void FindMissing(const v1::SynchronizeRequest& request, JobEntry& entry,
                   Operation* op);

  const absl::Duration missing_after_;
  JobTable* const jobs_;
  WorkerTable* const workers_;
  FailureRecorder* const failures_;
  JobLifecycle* const lifecycle_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SYNCHRONIZE_MEMBER_REPORTS_H_
