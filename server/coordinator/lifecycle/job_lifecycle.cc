// Implements JobLifecycle: how a job goes from one state to the next.
#include "server/coordinator/lifecycle/job_lifecycle.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "proto/job_state.h"
#include "proto/resource_names.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

absl::Status WrongState(const JobEntry& entry) {
  return absl::FailedPreconditionError(
      absl::StrCat(entry.name(), " is ", v1::JobState_Name(entry.state())));
}

// Whether an operator wants the worker empty, so that nothing returns to it.
bool MustLeave(const WorkerState& worker) {
  return worker.policy().drained() && !worker.policy().wait();
}

}  // namespace

void JobLifecycle::Place(JobEntry& entry, const std::vector<MemberSlot>& gang,
                         Operation* op) {
  Attempt& attempt = entry.attempt();
  entry.ForgetLost();
  attempt.Begin(op->now());
  for (const MemberSlot& place : gang) {
    WorkerState& worker = *workers_->Find(place.worker);
    attempt.AddMember(worker.id(), worker.incarnation(), place.slot, op->now());
    worker.AddJob(entry.name());
    workers_->MarkChanged(worker.id(), op);
  }
  for (GangMember& member : attempt.members()) {
    member.set_start_version(
        workers_->Find(member.worker())->desired_version());
  }
  entry.SetState(
      v1::STARTING,
      absl::StrCat("starting on ",
                   absl::StrJoin(entry.record().last_workers(), ", ")),
      op);
}

void JobLifecycle::Advance(JobEntry& entry, Operation* op) {
  if (!entry.active()) return;
  Attempt& attempt = entry.attempt();
  attempt.NoteResult(op->now());
  // The other members end as member 0 does, which is not its end.
  const bool awaits_model =
      attempt.AwaitsModelFor(op->now()) > absl::ZeroDuration();
  if (attempt.HasFailures() && !attempt.HasResult() && !awaits_model) {
    StopMembers(entry, op);
  }
  if (entry.state() == v1::STARTING && !attempt.stopping() &&
      attempt.AllStarted()) {
    attempt.MarkRunning(op->now());
    if (!entry.job().has_start_time()) {
      *entry.mutable_job().mutable_start_time() = ToTimestamp(op->now());
    }
    entry.SetState(v1::RUNNING, "all members are running", op);
  }
  if (attempt.AllEnded()) conclusion_.Conclude(entry, op);
}

void JobLifecycle::StopMembers(JobEntry& entry, Operation* op) {
  Attempt& attempt = entry.attempt();
  if (!attempt.Stop()) return;
  entry.MarkChanged(op);
  for (const GangMember& member : attempt.members()) {
    if (!member.HasEnded()) workers_->MarkChanged(member.worker(), op);
  }
  for (GangMember& member : attempt.members()) {
    if (const WorkerState* worker = workers_->Find(member.worker())) {
      member.set_stop_version(worker->desired_version());
    }
  }
}

void JobLifecycle::RequestStop(JobEntry& entry, AttemptRecord::StopCause cause,
                               const std::string& reason, Operation* op) {
  Attempt& attempt = entry.attempt();
  if (attempt.stopping() || attempt.HasResult() || attempt.finishing()) return;
  attempt.SetStopRequest(cause, reason, op->now());
  entry.mutable_job().set_reason(attempt.record().stop_reason());
  StopMembers(entry, op);
}

void JobLifecycle::LoseMembers(WorkerState& worker, const std::string& why,
                               Operation* op) {
  const std::set<std::string> jobs = worker.jobs();
  for (const std::string& name : jobs) {
    JobEntry& entry = *jobs_->Find(name);
    entry.ForgetLost();
    LoseMembersOf(entry, worker, why, op);
  }
  worker.SetOccupied({});
  op->RequestSchedule();
}

void JobLifecycle::GiveUpSilent(WorkerState& worker, const std::string& why,
                                Operation* op) {
  const std::set<std::string> jobs = worker.jobs();
  for (const std::string& name : jobs) {
    JobEntry& entry = *jobs_->Find(name);
    // A gang that is ending anyway does not come back.
    if (!entry.attempt().stopping() && !entry.attempt().HasFailures()) {
      entry.KeepLost();
    }
    LoseMembersOf(entry, worker, why, op);
  }
  worker.SetOccupied({});
  op->RequestSchedule();
}

void JobLifecycle::LoseMembersOf(JobEntry& entry, const WorkerState& worker,
                                 const std::string& why, Operation* op) {
  const Attempt& attempt = entry.attempt();
  for (GangMember& member : entry.attempt().members()) {
    if (member.worker() != worker.id() || member.lost()) continue;
    // An exited member is lost with its worker only while its model is not here
    // yet.
    const bool owes_model = member.number() == 0 && attempt.HasResult() &&
                            !attempt.ModelsAreStored();
    if (member.HasEnded() && !owes_model) continue;
    member.Lose();
    entry.MarkChanged(op);
    failures_->Record(entry, v1::NODE_LOST, member.number(),
                      absl::StrCat("worker ", worker.id(), " ", why), op);
  }
  Advance(entry, op);
}

void JobLifecycle::NoteMassSilence(WorkerState& worker, Operation* op) {
  for (const std::string& name : worker.jobs()) {
    JobEntry& entry = *jobs_->Find(name);
    if (entry.attempt().NoteMassSilence()) entry.MarkChanged(op);
  }
}

bool JobLifecycle::CanReadopt(const JobEntry& entry,
                              const v1::SynchronizeRequest& request,
                              const WorkerState& worker) const {
  // The scheduler pauses jobs whose checkpoint it gave up; users who pause one
  // have its lost attempt forgotten.
  const bool waits = entry.state() == v1::QUEUED || entry.state() == v1::PAUSED;
  if (!waits || entry.lost() == nullptr) return false;
  std::set<int32_t> alive;
  for (const v1::MemberStatus& status : request.members()) {
    if (status.job() == entry.name() &&
        status.attempt() == entry.job().attempt() &&
        status.phase() != v1::MemberStatus::EXITED) {
      alive.insert(status.rank());
    }
  }
  const auto& members = entry.lost()->attempt().members();
  for (int32_t rank = 0; rank < members.size(); ++rank) {
    const MemberRecord& member = members[rank];
    if (member.worker() == worker.id()) {
      if (MustLeave(worker) || member.incarnation() != worker.incarnation() ||
          alive.count(rank) == 0) {
        return false;
      }
      continue;
    }
    const WorkerState* other = workers_->Find(member.worker());
    if (other == nullptr || !other->lost() || MustLeave(*other) ||
        other->incarnation() != member.incarnation()) {
      return false;
    }
  }
  return !alive.empty();
}

void JobLifecycle::Readopt(const v1::SynchronizeRequest& request,
                           WorkerState& worker, Operation* op) {
  std::set<std::string> jobs;
  for (const v1::MemberStatus& status : request.members()) {
    const JobEntry* entry = jobs_->Find(status.job());
    if (entry != nullptr && entry->lost() != nullptr &&
        status.attempt() == entry->job().attempt()) {
      jobs.insert(status.job());
    }
  }
  for (const std::string& name : jobs) {
    JobEntry* entry = jobs_->Find(name);
    if (!CanReadopt(*entry, request, worker)) {
      // The answer tells the worker to stop its members, so that the gang is
      // gone, also if a later report still lists them.
      entry->ForgetLost();
      continue;
    }
    entry->Readopt(op->now());
    for (const GangMember& member : entry->attempt().members()) {
      WorkerState& host = *workers_->Find(member.worker());
      // The others have as long as after a restart of the coordinator.
      if (host.lost()) host.AwaitReport(op->now());
      host.AddJob(name);
      workers_->MarkChanged(host.id(), op);
    }
    entry->SetState(
        entry->attempt().record().has_running_since() ? v1::RUNNING
                                                      : v1::STARTING,
        absl::StrCat("worker ", worker.id(), " is back, and its members run"),
        op);
    op->RequestSchedule();
  }
}

void JobLifecycle::CheckHang(JobEntry& entry, Operation* op) {
  if (const auto hang = entry.attempt().DetectHang(options_->hang)) {
    failures_->Record(entry, v1::COLLECTIVE_HANG, hang->member, hang->message,
                      op);
  }
}

bool JobLifecycle::BeginFinish(JobEntry& entry, Operation* op) {
  Attempt& attempt = entry.attempt();
  if (entry.state() != v1::RUNNING || attempt.stopping() ||
      attempt.HasResult()) {
    return false;
  }
  const std::string& worker = attempt.members()[0].worker();
  const WorkerState* host = workers_->Find(worker);
  if (host == nullptr || !host->obeys_finish()) return false;
  attempt.Finish(op->now());
  entry.MarkChanged(op);
  workers_->MarkChanged(worker, op);
  return true;
}

void JobLifecycle::CheckDeadlines(JobEntry& entry, Operation* op) {
  const Attempt& attempt = entry.attempt();
  if (attempt.AwaitsModelFor(op->now()) > options_->leave_model_deadline) {
    StopMembers(entry, op);
  }
  if (entry.attempt().HasResult()) {
    CheckModelDeadline(entry, op);
  } else if (entry.attempt().stopping()) {
    return;
  } else if (entry.state() == v1::STARTING) {
    CheckStartDeadline(entry, op);
  } else if (entry.state() == v1::RUNNING) {
    CheckTimeLimit(entry, op);
  }
}

void JobLifecycle::CheckModelDeadline(JobEntry& entry, Operation* op) {
  Attempt& attempt = entry.attempt();
  const absl::Duration since = attempt.SinceResult(op->now());
  if (since > options_->finish_grace) StopMembers(entry, op);
  if (since <= options_->model_deadline || attempt.ModelsAreStored() ||
      attempt.members()[0].lost()) {
    return;
  }
  attempt.members()[0].Lose();
  failures_->Record(entry, v1::RANK_LOST, 0,
                    "training ended, but its model did not arrive", op);
  Advance(entry, op);
}

void JobLifecycle::CheckStartDeadline(JobEntry& entry, Operation* op) {
  const Attempt& attempt = entry.attempt();
  if (op->now() - attempt.placed() <= options_->start_deadline) return;
  for (const GangMember& member : attempt.members()) {
    if (!member.IsStartOverdue(options_->start_deadline)) continue;
    failures_->Record(
        entry, v1::RANK_LOST, member.number(),
        absl::StrCat("member ", member.number(), " did not report within ",
                     absl::FormatDuration(options_->start_deadline)),
        op);
    break;
  }
  Advance(entry, op);
}

void JobLifecycle::CheckTimeLimit(JobEntry& entry, Operation* op) {
  if (!entry.job().spec().has_time_limit()) return;
  const absl::Duration limit =
      FromProtoDuration(entry.job().spec().time_limit());
  const absl::Duration ran =
      absl::Microseconds(entry.record().running_micros()) +
      entry.attempt().RunningFor(op->now());
  if (limit <= absl::ZeroDuration() || ran <= limit ||
      entry.attempt().finishing()) {
    return;
  }
  BeginFinish(entry, op);
  failures_->Record(
      entry, v1::USER, FailureRecorder::kWholeGang,
      absl::StrCat("time_limit of ", absl::FormatDuration(limit), " exceeded"),
      op);
  Advance(entry, op);
}

void JobLifecycle::Cancel(JobEntry& entry, const std::string& reason,
                          Operation* op) {
  switch (entry.state()) {
    case v1::QUEUED:
    case v1::PAUSED:
      entry.End(v1::CANCELLED, reason, op);
      break;
    case v1::STARTING:
    case v1::RUNNING: {
      // A sweep stops most of its jobs, to have their slots for others.
      const bool leaves_model =
          entry.job().sweep().empty() && BeginFinish(entry, op);
      entry.SetState(v1::CANCELLING, reason, op);
      if (!leaves_model) StopMembers(entry, op);
      Advance(entry, op);
      break;
    }
    default:
      break;
  }
  // A cancelled job may have held back the jobs behind it.
  op->RequestSchedule();
}

absl::Status JobLifecycle::Pause(JobEntry& entry, const std::string& reason,
                                 Operation* op) {
  switch (entry.state()) {
    case v1::PAUSED:
      break;
    case v1::QUEUED:
      entry.ForgetLost();
      entry.SetState(v1::PAUSED, reason, op);
      break;
    case v1::STARTING:
    case v1::RUNNING:
      entry.mutable_job().set_pausing(true);
      RequestStop(entry, AttemptRecord::PAUSED, reason, op);
      entry.MarkChanged(op);
      Advance(entry, op);
      break;
    default:
      return WrongState(entry);
  }
  op->RequestSchedule();
  return absl::OkStatus();
}

absl::Status JobLifecycle::CheckMayReopen(const JobEntry& entry) const {
  if (entry.state() == v1::SUCCEEDED) return WrongState(entry);
  for (const v1::Artifact& model : entry.job().models()) {
    const auto ids = ParseArtifactName(model.name());
    if (ids && absl::StartsWith(ids->second, "best-")) continue;
    // It would be exported again, under the same name.
    return absl::FailedPreconditionError(
        absl::StrCat(entry.name(), " ended by itself, with ", model.name(),
                     "; there is nothing to go on with"));
  }
  if (entry.job().sweep().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      entry.name(), " belongs to ", entry.job().sweep(),
      ", which counts it as ended; submit a job of its own instead"));
}

absl::Status JobLifecycle::Reopen(JobEntry& entry, Operation* op) {
  RETURN_IF_ERROR(CheckMayReopen(entry));
  const auto& states = entry.job().checkpoints();
  // A job that never ran has nothing to go on from.
  if (entry.job().attempt() > 0 && states.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        entry.name(), " is ", v1::JobState_Name(entry.state()),
        " and keeps no checkpoint; with start_over it begins at step 0 again"));
  }
  entry.Reopen();
  // A holder that was away before is waited for anew.
  entry.EndHolderWait(op);
  entry.SetState(v1::QUEUED,
                 states.empty()
                     ? "resumed"
                     : absl::StrCat("resumed, to go on from step ",
                                    states.rbegin()->step()),
                 op);
  op->RequestSchedule();
  return absl::OkStatus();
}

absl::Status JobLifecycle::Resume(JobEntry& entry, Operation* op) {
  if (entry.state() == v1::CANCELLING) return WrongState(entry);
  if (IsFinal(entry.state())) return Reopen(entry, op);
  if (entry.state() == v1::PAUSED) {
    // What could not be had before is waited for anew.
    entry.EndHolderWait(op);
    entry.SetState(v1::QUEUED, "resumed", op);
  } else if (entry.job().pausing()) {
    // It stops all the same, and goes on at once.
    entry.mutable_job().set_pausing(false);
    entry.MarkChanged(op);
  }
  op->RequestSchedule();
  return absl::OkStatus();
}

absl::Status JobLifecycle::StartOver(JobEntry& entry, const std::string& user,
                                     Operation* op) {
  const bool waits = entry.state() == v1::QUEUED && entry.holder_wait();
  const bool ended = IsFinal(entry.state());
  if (entry.state() != v1::PAUSED && !waits && !ended) {
    return absl::FailedPreconditionError(absl::StrCat(
        "start_over: ", entry.name(), " is ", v1::JobState_Name(entry.state()),
        "; only a job that is paused, failed or was cancelled, or waits for "
        "its checkpoint, can begin at step 0 again"));
  }
  // A job that never ran has nothing to give up.
  if (entry.job().attempt() == 0) return Resume(entry, op);
  if (ended) {
    RETURN_IF_ERROR(CheckMayReopen(entry));
    entry.Reopen();
  }
  entry.EndHolderWait(op);
  entry.ForgetLost();
  entry.StartOver();
  entry.AddIncident(v1::USER,
                    absl::StrCat("begun again at step 0 by ",
                                 user.empty() ? "its owner" : user, "'s wish"),
                    op);
  entry.SetState(v1::QUEUED, "resumed, to begin at step 0 again", op);
  op->RequestSchedule();
  return absl::OkStatus();
}

}  // namespace comera::server
