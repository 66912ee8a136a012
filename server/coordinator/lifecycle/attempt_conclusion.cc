// Implements AttemptConclusion: what a job becomes when its attempt is over.
#include "server/coordinator/lifecycle/attempt_conclusion.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text.h"
#include "proto/resource_names.h"
#include "server/coordinator/job/retry_policy.h"
#include "server/coordinator/job/training_lineage.h"

namespace comera::server {
namespace {

constexpr size_t kMaxReasonBytes = 4096;

std::string Describe(const v1::Failure& failure) {
  return absl::StrCat(v1::FailureClass_Name(failure.failure_class()), ": ",
                      failure.message());
}

// Whether nothing is known of its members but that their workers were silent.
bool OnlySilent(const Attempt& attempt) {
  const auto& failures = attempt.record().failures();
  return failures.size() == static_cast<int>(attempt.members().size()) &&
         std::all_of(failures.begin(), failures.end(),
                     [](const v1::Failure& failure) {
                       return failure.failure_class() == v1::NODE_LOST;
                     }) &&
         std::all_of(attempt.members().begin(), attempt.members().end(),
                     [](const GangMember& member) {
                       return member.record().phase() !=
                              v1::MemberStatus::EXITED;
                     });
}

}  // namespace

void AttemptConclusion::Conclude(JobEntry& entry, Operation* op) {
  const Attempt& attempt = entry.attempt();
  if (entry.state() == v1::CANCELLING) {
    if (attempt.HasResult() && attempt.ModelsAreStored()) {
      entry.PublishModels(op->now());
    } else if (attempt.finishing() && attempt.HasResult() &&
               !attempt.members()[0].lost()) {
      // The files of its best model, or of the last one if it ended by itself
      // meanwhile, are on their way.
      return;
    }
    EndAttempt(entry, op);
    entry.End(v1::CANCELLED, std::string(entry.job().reason()), op);
    return;
  }
  if (attempt.HasResult()) {
    if (!attempt.ModelsAreStored()) {
      if (!attempt.members()[0].lost()) return;
    } else if (!attempt.LeftModel()) {
      return Succeed(entry, op);
    } else {
      entry.PublishModels(op->now());
    }
  }
  if (attempt.stop_requested()) return EndStopped(entry, op);
  if (!attempt.HasFailures()) {
    // Workers tell why a member ended that they did not stop. This one was
    // stopped, or its model refused, by an earlier answer that took the attempt
    // for lost: the job is not to blame.
    failures_->Record(entry, v1::RANK_LOST, 0,
                      "member 0 ended without a result: it was stopped, or its "
                      "model was refused, while the attempt was given up",
                      op);
  }
  RetryOrFail(entry, op);
}

void AttemptConclusion::EndAttempt(JobEntry& entry, Operation* op) {
  for (const GangMember& member : entry.attempt().members()) {
    if (WorkerState* worker = workers_->Find(member.worker())) {
      worker->RemoveJob(entry.name());
      workers_->MarkChanged(member.worker(), op);
    }
  }
  entry.attempt().End(op->now());
  op->RequestSchedule();
  entry.MarkChanged(op);
}

void AttemptConclusion::Succeed(JobEntry& entry, Operation* op) {
  const v1::TrainingResult result =
      entry.attempt().members()[0].record().result();
  entry.PublishModels(op->now());
  entry.KeepIncidents(FailuresCauseFirst(entry.attempt().record()));
  EndAttempt(entry, op);
  const v1::Outcome outcome = result.outcome() == v1::OUTCOME_UNSPECIFIED
                                  ? v1::COMPLETED
                                  : result.outcome();
  entry.mutable_job().set_outcome(outcome);
  entry.End(v1::SUCCEEDED,
            result.reason().empty()
                ? v1::Outcome_Name(outcome)
                : TruncateUtf8(result.reason(), kMaxReasonBytes),
            op);
}

void AttemptConclusion::EndStopped(JobEntry& entry, Operation* op) {
  const AttemptRecord::StopCause cause = entry.attempt().record().stop_cause();
  const std::string why = entry.attempt().record().stop_reason();
  // None of these failures counts: the gang was ending anyway.
  entry.KeepIncidents(FailuresCauseFirst(entry.attempt().record()));
  if (cause == AttemptRecord::PREEMPTED) {
    entry.CountPreemption();
    failures_->Record(entry, v1::PREEMPTED, FailureRecorder::kWholeGang, why,
                      op);
    entry.KeepIncidents({*entry.attempt().record().failures().rbegin()});
  }
  NoteUnsaved(entry, op);
  EndAttempt(entry, op);
  entry.RevertStart();
  entry.EndHolderWait(op);
  entry.SetResizing(cause == AttemptRecord::RESIZED);
  if (entry.job().pausing()) {
    entry.mutable_job().set_pausing(false);
    entry.SetState(v1::PAUSED, cause == AttemptRecord::PAUSED ? why : "paused",
                   op);
    return;
  }
  entry.SetState(v1::QUEUED,
                 cause == AttemptRecord::PAUSED
                     ? "resumed"
                     : absl::StrCat("stopped: ", why),
                 op);
}

void AttemptConclusion::NoteUnsaved(JobEntry& entry, Operation* op) {
  // Until the attempt has begun, the progress is that of the one before.
  if (entry.record().start_pending()) return;
  const auto& saved = entry.job().checkpoints();
  const auto start =
      ParseCheckpointName(entry.job().spec().start_from().checkpoint());
  const int64_t step = !saved.empty() ? saved.rbegin()->step()
                       : start        ? start->second
                                      : 0;
  if (entry.job().progress().step() <= step) return;
  entry.AddIncident(
      v1::RANK_LOST,
      absl::StrCat("was stopped at step ", entry.job().progress().step(),
                   " before it had saved its state; its newest checkpoint is ",
                   saved.empty() ? "its beginning"
                                 : absl::StrCat("that of step ", step)),
      op);
}

void AttemptConclusion::RetryOrFail(JobEntry& entry, Operation* op) {
  std::vector<v1::Failure> failures =
      FailuresCauseFirst(entry.attempt().record());
  const v1::Failure cause = failures.front();
  // Every damaged state that is passed over leaves older ones, so this ends.
  const bool passes_over = cause.failure_class() == v1::CHECKPOINT_DAMAGED &&
                           entry.start() != nullptr && IsState(*entry.start());
  std::string free;
  if (passes_over) {
    free = "an older state is tried";
  } else if (entry.IsForgiven(cause.failure_class())) {
    free = "most workers were silent together";
  }
  const bool retry = passes_over || entry.ChargeRetry(cause.failure_class());
  if (!OnlySilent(entry.attempt())) entry.ForgetLost();
  EndAttempt(entry, op);
  // A job that ends keeps its cause in `failure`.
  if (!retry) failures.erase(failures.begin());
  entry.KeepIncidents(failures);
  if (retry) {
    NoteStart(entry, failures, op);
    entry.RevertStart();
    return Requeue(entry, cause, free, op);
  }
  *entry.mutable_job().mutable_failure() = cause;
  entry.End(v1::FAILED, Describe(cause), op);
}

bool AttemptConclusion::HasAbsentHolder(
    const JobEntry& entry, const v1::TrainingStateKey& state) const {
  for (const v1::Checkpoint& named : entry.job().checkpoints()) {
    if (!SameState(named.attempt(), named.step(), state.attempt(),
                   state.step())) {
      continue;
    }
    for (const std::string& id : named.workers()) {
      const WorkerState* worker = workers_->Find(id);
      if (worker == nullptr || !worker->IsReachable()) return true;
    }
  }
  return false;
}

void AttemptConclusion::NoteStart(JobEntry& entry,
                                  const std::vector<v1::Failure>& failures,
                                  Operation* op) {
  const auto has = [&](v1::FailureClass wanted) {
    return std::any_of(failures.begin(), failures.end(),
                       [&](const v1::Failure& failure) {
                         return failure.failure_class() == wanted;
                       });
  };
  const v1::TrainingStateKey* start = entry.start();
  const bool damaged = has(v1::CHECKPOINT_DAMAGED);
  if (start != nullptr && IsState(*start) &&
      (has(v1::CHECKPOINT_UNREACHABLE) ||
       (damaged && HasAbsentHolder(entry, *start)))) {
    JobEntry::SetAside aside;
    aside.state = *start;
    aside.until = op->now() + options_->checkpoint_wait / 2;
    std::vector<std::string> holders;
    for (const auto& [id, worker] : workers_->workers()) {
      if (!worker.HoldsState(entry.name(), *start)) continue;
      aside.holders.emplace(id, worker.incarnation());
      holders.push_back(id);
    }
    aside.text = absl::StrCat(
        "waiting to fetch its checkpoint of step ", start->step(),
        holders.empty() ? "" : " from ", absl::StrJoin(holders, ", "),
        " again, which attempt ", entry.job().attempt(), " could not");
    entry.set_aside(std::move(aside));
    entry.BeginHolderWait(op);
    return;
  }
  entry.EndHolderWait(op);
  if (!damaged) return;
  if (const std::optional<int64_t> step = entry.ExcludeStart()) {
    const int64_t left = entry.job().checkpoints().empty()
                             ? -1
                             : entry.job().checkpoints().rbegin()->step();
    entry.AddIncident(
        v1::CHECKPOINT_DAMAGED,
        absl::StrCat("the state of step ", *step, " cannot be read; ",
                     left < 0 ? "no older checkpoint is known"
                              : absl::StrCat("the checkpoint of step ", left,
                                             " is the next older one")),
        op);
  }
}

void AttemptConclusion::Requeue(JobEntry& entry, const v1::Failure& cause,
                                const std::string& free, Operation* op) {
  if (cause.failure_class() == v1::PREEMPTED) {
    entry.SetState(
        v1::QUEUED,
        absl::StrCat("attempt ", entry.job().attempt(), " was stopped (",
                     cause.message(), "), to go on elsewhere"),
        op);
    return;
  }
  const absl::Duration delay = RetryDelay(
      options_->retry_backoff, entry.CountLossInRow(), options_->jitter());
  entry.ScheduleRetry(delay, op->now());
  std::string when = "trying again";
  if (delay > absl::ZeroDuration()) {
    when =
        absl::StrCat("trying again in ",
                     absl::FormatDuration(absl::Ceil(delay, absl::Seconds(1))));
  }
  entry.SetState(
      v1::QUEUED,
      absl::StrCat("attempt ", entry.job().attempt(), " was lost (",
                   Describe(cause), "), ",
                   free.empty() ? ""
                                : absl::StrCat("charged to no budget because ",
                                               free, ", "),
                   when),
      op);
}

}  // namespace comera::server
