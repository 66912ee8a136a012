#ifndef COMERA_SERVER_COORDINATOR_JOB_JOB_ENTRY_H_
#define COMERA_SERVER_COORDINATOR_JOB_JOB_ENTRY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/attempt.h"
#include "server/coordinator/job/job_index.h"
#include "server/coordinator/operation/operation.h"
#include "server/scheduler/job_demand.h"
#include "server/scheduler/wait_reason.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

// One job: its record, its attempt, and how both change.
//
// States: QUEUED -> STARTING -> RUNNING -> SUCCEEDED or FAILED, or back to
// QUEUED when an attempt was lost; QUEUED <-> PAUSED; any of these ->
// CANCELLING -> CANCELLED. Whatever changes the record marks the job as changed
// in the operation, and clients see each change of state as an event. Not
// thread-safe.
class JobEntry {
 public:
  // `index` is told of changed states; null: nobody is. It must outlive this.
  JobEntry(JobRecord record, JobIndex* index);
  JobEntry(const JobEntry&) = delete;
  JobEntry& operator=(const JobEntry&) = delete;

  const std::string& name() const { return record_.job().name(); }
  v1::JobState state() const { return record_.job().state(); }
  bool active() const { return IsActive(state()); }
  const v1::Job& job() const { return record_.job(); }
  v1::Job& mutable_job() { return *record_.mutable_job(); }
  const JobRecord& record() const { return record_; }
  Attempt& attempt() { return attempt_; }
  const Attempt& attempt() const { return attempt_; }
  // What the scheduler must know of its specification.
  const JobDemand& demand() const { return demand_; }

  // Takes over the record of an earlier coordinator; see Attempt::Restore. A
  // wait for the next attempt ends by `latest_retry`.
  void Restore(int64_t first_version, absl::Time latest_retry, absl::Time now);
  // Numbers the change, and returns the record to be stored.
  const JobRecord& CommitRevision();

  // States and events.
  void SetState(v1::JobState state, const std::string& reason, Operation* op);
  // The same for a final state.
  void End(v1::JobState state, const std::string& reason, Operation* op);
  void AddEvent(v1::JobEvent event, Operation* op);
  void MarkChanged(Operation* op) const { op->MarkJobChanged(name()); }
  // Why the queued job waits. Returns whether that is news, which is shown in
  // the job's `reason` but not stored.
  bool SetWaitReason(const WaitReason& reason);

  // Failures.
  // A failure that the attempt survives.
  void AddIncident(v1::Failure failure, Operation* op);
  // Adds to what clients see of past failures, as long as there is room.
  void KeepIncidents(const std::vector<v1::Failure>& failures);

  // Between attempts.
  // The queued job waits for nothing but this time before it is tried again.
  absl::Time retry_at() const { return retry_at_; }
  // One more attempt in a row was lost; returns how many those are.
  int32_t CountLossInRow();
  void ScheduleRetry(absl::Duration delay, absl::Time now);
  // No checkpoint is any good: the next attempt begins at step 0.
  void StartOver();
  // Charges the loss of an attempt; returns whether the job may be retried.
  bool ChargeRetry(v1::FailureClass cause);
  void CountPreemption();
  void SetResizing(bool resizing) { record_.set_resizing(resizing); }
  // The elastic job is to be placed with at most this many members.
  void SetTargetProcesses(int32_t processes);

  // Checkpoints and models.
  // Member 0, on `worker`, has saved one.
  void RecordCheckpoint(const v1::CheckpointSaved& saved,
                        const std::string& worker, absl::Time now);
  // Whether the next attempt is to continue from a checkpoint.
  bool resumes() const { return job().attempt() > 1 && !record_.start_over(); }
  // Shows the models and checkpoints that come with the attempt's result.
  void PublishModels(absl::Time now);

 private:
  JobRecord record_;
  Attempt attempt_;
  JobDemand demand_;
  JobIndex* const index_;
  // What `reason` last said of a queued job; kNone: something else.
  WaitReason wait_;
  absl::Time retry_at_ = absl::InfinitePast();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_JOB_ENTRY_H_
