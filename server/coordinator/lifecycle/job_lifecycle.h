#ifndef COMERA_SERVER_COORDINATOR_LIFECYCLE_JOB_LIFECYCLE_H_
#define COMERA_SERVER_COORDINATOR_LIFECYCLE_JOB_LIFECYCLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/job/job_entry.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/attempt_conclusion.h"
#include "server/coordinator/lifecycle/failure_recorder.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// The place of one member.
struct MemberSlot {
  std::string worker;
  int32_t slot = 0;
};

// Moves jobs between their states: places and stops gangs, and goes on whenever
// members have started, failed or ended. Whatever changes an attempt calls
// Advance() afterwards. Not thread-safe.
class JobLifecycle {
 public:
  // All must outlive it.
  JobLifecycle(const CoordinatorOptions* options, JobTable* jobs,
               WorkerTable* workers, FailureRecorder* failures)
      : options_(options),
        jobs_(jobs),
        workers_(workers),
        failures_(failures),
        conclusion_(options, workers, failures) {}

  // Begins an attempt of a queued job, with one slot for each member.
  void Place(JobEntry& entry, const std::vector<MemberSlot>& gang,
             Operation* op);
  // Goes on as far as the members' states allow.
  void Advance(JobEntry& entry, Operation* op);
  // Has the gang save a checkpoint and end; nothing is charged to the job.
  void RequestStop(JobEntry& entry, AttemptRecord::StopCause cause,
                   const std::string& reason, Operation* op);
  // Gives up the members on the worker, whose process is gone; `why` continues
  // "worker w ".
  void LoseMembers(WorkerState& worker, const std::string& why, Operation* op);
  // The same for a worker that is only silent, whose members may still run: see
  // Readopt().
  void GiveUpSilent(WorkerState& worker, const std::string& why, Operation* op);
  // A silent worker is back, in the same incarnation. Attempts that were given
  // up for silence alone go on, with what was charged for them taken back, if
  // their members here still run, nothing was placed in their stead, and no
  // other worker of theirs is back without them. Others are given up for good.
  // Comes before the members' states are applied.
  void Readopt(const v1::SynchronizeRequest& request, WorkerState& worker,
               Operation* op);
  // The worker is silent, and so are most others: a failure of its attempts
  // that follows is not theirs.
  void NoteMassSilence(WorkerState& worker, Operation* op);
  // What time alone changes: members that do not start, models that do not
  // arrive, the job's time limit.
  void CheckDeadlines(JobEntry& entry, Operation* op);
  // Fails the attempt if one of its members hangs.
  void CheckHang(JobEntry& entry, Operation* op);

  // What clients ask for. FailedPrecondition: not in the job's state.
  void Cancel(JobEntry& entry, const std::string& reason, Operation* op);
  absl::Status Pause(JobEntry& entry, const std::string& reason, Operation* op);
  // Whether an ended job may be resumed.
  absl::Status CheckMayReopen(const JobEntry& entry) const;
  // A job that failed or was cancelled goes on from its newest checkpoint.
  absl::Status Resume(JobEntry& entry, Operation* op);
  // Resumes a job that is paused, waits for its checkpoint, failed or was
  // cancelled, at step 0. The incident names the user; empty: unknown.
  absl::Status StartOver(JobEntry& entry, const std::string& user,
                         Operation* op);

 private:
  // Loses those of the job's members on the worker that have not ended, and
  // goes on.
  void LoseMembersOf(JobEntry& entry, const WorkerState& worker,
                     const std::string& why, Operation* op);
  bool CanReadopt(const JobEntry& entry, const v1::SynchronizeRequest& request,
                  const WorkerState& worker) const;
  absl::Status Reopen(JobEntry& entry, Operation* op);
  // Asks member 0 to end and to leave its best model. False: it cannot be.
  bool BeginFinish(JobEntry& entry, Operation* op);
  // Has the workers end the members.
  void StopMembers(JobEntry& entry, Operation* op);
  void CheckModelDeadline(JobEntry& entry, Operation* op);
  void CheckStartDeadline(JobEntry& entry, Operation* op);
  void CheckTimeLimit(JobEntry& entry, Operation* op);

  const CoordinatorOptions* const options_;
  JobTable* const jobs_;
  WorkerTable* const workers_;
  FailureRecorder* const failures_;
  AttemptConclusion conclusion_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_LIFECYCLE_JOB_LIFECYCLE_H_
