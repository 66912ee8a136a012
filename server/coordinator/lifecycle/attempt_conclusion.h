#ifndef COMERA_SERVER_COORDINATOR_LIFECYCLE_ATTEMPT_CONCLUSION_H_
#define COMERA_SERVER_COORDINATOR_LIFECYCLE_ATTEMPT_CONCLUSION_H_

#include <vector>

#include "comera/v1/job.pb.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/job/job_entry.h"
#include "server/coordinator/lifecycle/failure_recorder.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// Decides what becomes of a job when all members of its attempt have ended:
// cancelled, succeeded, paused, queued again, or failed. Not thread-safe.
class AttemptConclusion {
 public:
  // All must outlive it.
  AttemptConclusion(const CoordinatorOptions* options, WorkerTable* workers,
                    FailureRecorder* failures)
      : options_(options), workers_(workers), failures_(failures) {}

  // All members must have ended. Does nothing while a model is still to come.
  void Conclude(JobEntry& entry, Operation* op);

 private:
  void Succeed(JobEntry& entry, Operation* op);
  // The gang stopped because somebody had asked for it.
  void EndStopped(JobEntry& entry, Operation* op);
  // Tells of steps that a stopped gang has trained and not saved, because it was
  // killed before it could.
  void NoteUnsaved(JobEntry& entry, Operation* op);
  void RetryOrFail(JobEntry& entry, Operation* op);
  // Has the job tried again, now or after a wait; its place in the queue stays.
  // `free` says why the loss is charged to no budget, if it is not.
  void Requeue(JobEntry& entry, const v1::Failure& cause,
               const std::string& free, Operation* op);
  // Whether a worker that is away has a copy of the job's state.
  bool HasAbsentHolder(const JobEntry& entry,
                       const v1::TrainingStateKey& state) const;
  // Has the next attempt begin from another state if this one's could not be
  // read, and lets the state rest if it could not be fetched.
  void NoteStart(JobEntry& entry, const std::vector<v1::Failure>& failures,
                 Operation* op);
  // Frees the workers, and forgets the attempt.
  void EndAttempt(JobEntry& entry, Operation* op);

  const CoordinatorOptions* const options_;
  WorkerTable* const workers_;
  FailureRecorder* const failures_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_LIFECYCLE_ATTEMPT_CONCLUSION_H_
