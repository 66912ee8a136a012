#ifndef COMERA_SERVER_COORDINATOR_JOB_JOB_ENTRY_H_
#define COMERA_SERVER_COORDINATOR_JOB_JOB_ENTRY_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/attempt.h"
#include "server/coordinator/job/job_index.h"
#include "server/coordinator/job/reported_events.h"
#include "server/coordinator/job/training_lineage.h"
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
  ReportedEvents& reported_events() { return reported_events_; }
  // What the scheduler must know of its specification.
  const JobDemand& demand() const { return demand_; }

  // Takes over the record of an earlier coordinator; see Attempt::Restore. A
  // wait for the next attempt ends by `latest_retry`. The clock is known to be
  // ahead by `lead`.
  void Restore(int64_t first_version, absl::Time latest_retry,
               absl::Duration lead, absl::Time now);
  // Numbers the change, and returns the record to be stored.
  const JobRecord& CommitRevision(absl::Time now);

  // States and events.
  void SetState(v1::JobState state, const std::string& reason, Operation* op);
  // The same for a final state.
  void End(v1::JobState state, const std::string& reason, Operation* op);
  void AddEvent(v1::JobEvent event, Operation* op);
  void MarkChanged(Operation* op) const { op->MarkJobChanged(name()); }
  // Why the queued job waits. Returns whether that is news, which is shown in
  // the job's `reason` but not stored.
  bool SetWaitReason(const WaitReason& reason);
  // The same for a wait that the scheduler does not know of.
  bool SetWaitText(const std::string& text);

  // Failures.
  // A failure that the attempt survives.
  void AddIncident(v1::Failure failure, Operation* op);
  void AddIncident(v1::FailureClass failure_class, const std::string& message,
                   Operation* op);
  // An incident that a worker repeats as long as it lasts: the first time that
  // the attempt has it, and only a few for each attempt.
  void AddTrouble(const v1::MemberTrouble& trouble, Operation* op);
  // Adds to what clients see of past failures, as long as there is room.
  void KeepIncidents(const std::vector<v1::Failure>& failures);

  // Between attempts.
  // The queued job waits for nothing but this time before it is tried again.
  absl::Time retry_at() const { return retry_at_; }
  // One more attempt in a row was lost; returns how many those are.
  int32_t CountLossInRow();
  void ScheduleRetry(absl::Duration delay, absl::Time now);
  // Whether the loss of the attempt is charged to no budget: it goes with the
  // silence of most workers, and the attempt before was not lost too.
  bool IsForgiven(v1::FailureClass cause) const;
  // Charges the loss of an attempt, unless it is forgiven; returns whether the
  // job may be retried.
  bool ChargeRetry(v1::FailureClass cause);
  // Keeps the record as it is, before the attempt is given up because workers
  // are silent, so that it can go on if they come back.
  void KeepLost() { lost_ = record_; }
  void ForgetLost() { lost_.reset(); }
  // The record before the last attempt was given up for silence; null: it ended
  // otherwise, or another one was placed.
  const JobRecord* lost() const { return lost_ ? &*lost_ : nullptr; }
  // Goes on with that attempt, which must be there, as if it had not been given
  // up; the caller sets the state.
  void Readopt(absl::Time now);
  void CountPreemption();
  void SetResizing(bool resizing) { record_.set_resizing(resizing); }
  // The elastic job is to be placed with at most this many members.
  void SetTargetProcesses(int32_t processes);

  // Where attempts begin.
  TrainingLineage lineage() const { return TrainingLineage(&record_.starts()); }
  // The next attempt begins at step 0, and all states so far are given up.
  void StartOver();
  // The attempt that is about to be placed begins from this state, or at step 0
  // (see AddStart()). Nothing is given up until it has begun.
  void RecordStart(const v1::TrainingStateKey& from);
  // The attempt has ended. If it never began, nothing was given up for it:
  // states that were saved before it are valid as if it had not been.
  void RevertStart();
  // The ended job is to go on: forgets its end, and the budgets that it spent.
  void Reopen();
  // The attempt says from which step it really began. Forgets the checkpoints
  // that this gives up.
  void CheckBegun(int64_t step, Operation* op);
  // The state that the last attempt was to begin from cannot be read: it and
  // everything later are given up. Returns its step, or nothing if the job has
  // no state.
  std::optional<int64_t> ExcludeStart();
  // The state that the current attempt begins from; null: none was chosen.
  const v1::TrainingStateKey* start() const;
  // Whether the current attempt is to continue from a checkpoint. One that an
  // earlier version placed looks for the newest itself.
  bool resumes() const;

  // Waiting for a worker that holds the checkpoint.
  // Since when; nothing: it does not wait.
  std::optional<absl::Time> holder_wait() const;
  void BeginHolderWait(Operation* op);
  // Ends the wait, and forgets what was set aside.
  void EndHolderWait(Operation* op);
  // A state that is not chosen for a while, because an attempt could not get
  // it, or nothing that could read it had room.
  struct SetAside {
    v1::TrainingStateKey state;
    absl::Time until = absl::InfinitePast();
    // Workers and incarnations that this is known of; with another holder the
    // state is tried again.
    std::set<std::pair<std::string, std::string>> holders;
    // Why the job waits meanwhile.
    std::string text;
    // Only room is missing: the state is there, so it is not given up.
    bool for_room = false;
  };
  void set_aside(SetAside aside) { aside_ = std::move(aside); }
  const std::optional<SetAside>& aside() const { return aside_; }

  // Checkpoints and models.
  // The worker is told to keep copies of the job's states, or to fetch one.
  void NoteKeeper(const std::string& worker, Operation* op);
  // Member 0, on `worker`, has saved one.
  void RecordCheckpoint(const v1::CheckpointSaved& saved,
                        const std::string& worker, absl::Time now);
  // Shows the models and checkpoints that come with the attempt's result.
  void PublishModels(absl::Time now);

 private:
  void ConfirmStart();

  JobRecord record_;
  Attempt attempt_;
  JobDemand demand_;
  JobIndex* const index_;
  // What `reason` last said of a queued job; kNone: something else.
  WaitReason wait_;
  absl::Time retry_at_ = absl::InfinitePast();
  std::optional<SetAside> aside_;
  std::optional<JobRecord> lost_;
  // What workers have complained of in attempt `troubled_attempt_`.
  std::set<std::pair<int, std::string>> troubles_;
  int64_t troubled_attempt_ = 0;
  ReportedEvents reported_events_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_JOB_ENTRY_H_
