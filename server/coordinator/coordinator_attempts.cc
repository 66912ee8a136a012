// Life of an attempt: placed, running, ended, judged.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text.h"
#include "proto/resource_names.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/retry_policy.h"
#include "server/coordinator/start_from.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr size_t kMaxMessageBytes = 4096;
constexpr int kMaxIncidents = 64;
constexpr int kMaxFailures = 4096;
constexpr int kMaxUploads = 256;

}  // namespace

void Coordinator::Place(const Gang& placement, absl::Time now,
                        Effects* effects) {
  JobEntry& entry = *jobs_.Find(placement.job);
  entry.job().set_attempt(entry.job().attempt() + 1);
  Attempt& attempt = *entry.record.mutable_attempt();
  attempt.Clear();
  entry.ranks.clear();
  entry.rendezvous = RendezvousMirror();
  entry.hang.Reset();
  entry.placed = now;
  entry.placed_here = true;
  entry.result_time = absl::InfiniteFuture();
  entry.record.clear_last_workers();
  std::vector<std::string> names;
  for (const GangMember& place : placement.ranks) {
    WorkerState& worker = *workers_.Find(place.worker);
    AttemptMember& rank = *attempt.add_members();
    rank.set_worker(place.worker);
    rank.set_incarnation(worker.incarnation);
    rank.set_slot(place.slot);
    worker.jobs.insert(placement.job);
    Touch(place.worker);
    MemberWatch watch;
    watch.last_listed = now;
    entry.ranks.push_back(watch);
    if (std::find(names.begin(), names.end(), place.worker) == names.end()) {
      names.push_back(place.worker);
      entry.record.add_last_workers(place.worker);
    }
  }
  for (int i = 0; i < attempt.members_size(); ++i) {
    entry.ranks[i].start_version =
        workers_.Find(attempt.members(i).worker())->desired_version;
  }
  SetState(entry, v1::STARTING,
           absl::StrCat("starting on ", absl::StrJoin(names, ", ")), now,
           effects);
}

void Coordinator::StopAttempt(JobEntry& entry) {
  Attempt& attempt = *entry.record.mutable_attempt();
  if (attempt.stopping()) return;
  attempt.set_stopping(true);
  Change(entry);
  for (const AttemptMember& rank : attempt.members()) {
    if (!Ended(rank)) Touch(rank.worker());
  }
  for (int i = 0; i < attempt.members_size(); ++i) {
    const WorkerState* worker = workers_.Find(attempt.members(i).worker());
    if (worker != nullptr) {
      entry.ranks[i].stop_version = worker->desired_version;
    }
  }
}

void Coordinator::AddFailure(JobEntry& entry, v1::FailureClass failure_class,
                             int32_t rank, const std::string& message,
                             absl::Time now, Effects* effects) {
  v1::Failure failure;
  failure.set_failure_class(failure_class);
  failure.set_message(message);
  failure.set_rank(rank);
  RecordFailure(entry, std::move(failure), now, effects);
}

void Coordinator::RecordFailure(JobEntry& entry, v1::Failure failure,
                                absl::Time now, Effects* effects) {
  Attempt& attempt = *entry.record.mutable_attempt();
  if (attempt.failures_size() >= kMaxFailures) return;
  if (failure.failure_class() == v1::FAILURE_CLASS_UNSPECIFIED) {
    failure.set_failure_class(v1::INTERNAL);
  }
  // Other machines' clocks may be wrong, and the first failure is the cause.
  absl::Time time = failure.has_time() ? FromTimestamp(failure.time()) : now;
  if (entry.placed_here) time = std::max(time, entry.placed);
  *failure.mutable_time() = ToTimestamp(std::min(time, now));
  failure.set_attempt(entry.job().attempt());
  failure.set_message(TruncateUtf8(failure.message(), kMaxMessageBytes));
  failure.set_log_tail(TruncateUtf8(failure.log_tail(), kMaxMessageBytes));
  *attempt.add_failures() = failure;
  Change(entry);
  CountHardwareFailure(entry, failure, now, effects);
  if (entry.job().state() == v1::CANCELLING) return;
  v1::JobEvent event;
  *event.mutable_incident() = std::move(failure);
  AddEvent(entry, std::move(event), now, effects);
}

void Coordinator::LoseMembers(WorkerState& worker, const std::string& why,
                              absl::Time now, Effects* effects) {
  const std::set<std::string> jobs = worker.jobs;
  for (const std::string& name : jobs) {
    JobEntry& entry = *jobs_.Find(name);
    Attempt& attempt = *entry.record.mutable_attempt();
    for (int i = 0; i < attempt.members_size(); ++i) {
      AttemptMember& rank = *attempt.mutable_members(i);
      if (rank.worker() != worker.id || rank.lost()) continue;
      // An exited rank is lost with its worker only while its model is not
      // here yet.
      const bool owes_model =
          i == 0 && HasResult(attempt) && !ModelsAreStored(attempt);
      if (Ended(rank) && !owes_model) continue;
      rank.set_lost(true);
      Change(entry);
      AddFailure(entry, v1::NODE_LOST, i,
                 absl::StrCat("worker ", worker.id, " ", why), now, effects);
    }
    Advance(entry, now, effects);
  }
  worker.occupied.clear();
  needs_schedule_ = true;
}

void Coordinator::Advance(JobEntry& entry, absl::Time now, Effects* effects) {
  if (!IsActive(entry.job().state())) return;
  Attempt& attempt = *entry.record.mutable_attempt();
  if (HasResult(attempt) && entry.result_time == absl::InfiniteFuture()) {
    entry.result_time = now;
  }
  if (attempt.failures_size() > 0 && !HasResult(attempt)) StopAttempt(entry);
  if (entry.job().state() == v1::STARTING && !attempt.stopping() &&
      AllStarted(attempt)) {
    *attempt.mutable_running_since() = ToTimestamp(now);
    if (!entry.job().has_start_time()) {
      *entry.job().mutable_start_time() = ToTimestamp(now);
    }
    SetState(entry, v1::RUNNING, "all members are running", now, effects);
  }
  if (!AllEnded(attempt)) return;
  if (entry.job().state() == v1::CANCELLING) {
    EndAttempt(entry, now);
    *entry.job().mutable_end_time() = ToTimestamp(now);
    SetState(entry, v1::CANCELLED, std::string(entry.job().reason()), now,
             effects);
    return;
  }
  if (HasResult(attempt)) {
    if (ModelsAreStored(attempt)) return Succeed(entry, now, effects);
    if (!attempt.members(0).lost()) return;
  }
  if (attempt.stop_cause() != Attempt::NOT_ASKED) {
    return EndStopped(entry, now, effects);
  }
  if (attempt.failures_size() == 0) {
    AddFailure(entry, v1::INTERNAL, 0, "member 0 ended without a result", now,
               effects);
  }
  RetryOrFail(entry, now, effects);
}

void Coordinator::EndAttempt(JobEntry& entry, absl::Time now) {
  Attempt& attempt = *entry.record.mutable_attempt();
  if (attempt.has_running_since()) {
    const absl::Duration ran = now - FromTimestamp(attempt.running_since());
    entry.record.set_running_micros(entry.record.running_micros() +
                                    absl::ToInt64Microseconds(ran));
  }
  for (const AttemptMember& rank : attempt.members()) {
    if (WorkerState* worker = workers_.Find(rank.worker())) {
      worker->jobs.erase(entry.job().name());
      Touch(rank.worker());
    }
  }
  entry.record.clear_attempt();
  entry.ranks.clear();
  entry.rendezvous = RendezvousMirror();
  needs_schedule_ = true;
  Change(entry);
}

void Coordinator::Succeed(JobEntry& entry, absl::Time now, Effects* effects) {
  const Attempt& attempt = entry.record.attempt();
  const v1::TrainingResult result = attempt.members(0).result();
  // The job's model is the newest of all.
  for (v1::Artifact model : attempt.members(0).target_models()) {
    if (IsEarlyStage(model)) {
      AddEarlyStage(model, result.step(), now, &entry.job());
      continue;
    }
    *model.mutable_create_time() = ToTimestamp(now);
    *entry.job().add_models() = std::move(model);
  }
  v1::Artifact model = attempt.members(0).model();
  if (!model.name().empty()) {
    *model.mutable_create_time() = ToTimestamp(now);
    *entry.job().add_models() = std::move(model);
  }
  for (const v1::Failure& failure : FailuresCauseFirst(attempt)) {
    if (entry.job().incidents_size() >= kMaxIncidents) break;
    *entry.job().add_incidents() = failure;
  }
  EndAttempt(entry, now);
  entry.job().set_outcome(result.outcome() == v1::OUTCOME_UNSPECIFIED
                              ? v1::COMPLETED
                              : result.outcome());
  *entry.job().mutable_end_time() = ToTimestamp(now);
  SetState(entry, v1::SUCCEEDED,
           result.reason().empty()
               ? v1::Outcome_Name(entry.job().outcome())
               : TruncateUtf8(result.reason(), kMaxMessageBytes),
           now, effects);
}

void Coordinator::RetryOrFail(JobEntry& entry, absl::Time now,
                              Effects* effects) {
  std::vector<v1::Failure> failures =
      FailuresCauseFirst(entry.record.attempt());
  const v1::Failure cause = failures.front();
  const bool retry = ChargeRetry(cause.failure_class(), &entry.record);
  EndAttempt(entry, now);
  // A job that ends keeps its cause in `failure`.
  if (!retry) failures.erase(failures.begin());
  for (v1::Failure& failure : failures) {
    if (entry.job().incidents_size() >= kMaxIncidents) break;
    *entry.job().add_incidents() = std::move(failure);
  }
  const std::string what = absl::StrCat(
      v1::FailureClass_Name(cause.failure_class()), ": ", cause.message());
  if (retry) return Requeue(entry, cause, now, effects);
  *entry.job().mutable_failure() = cause;
  *entry.job().mutable_end_time() = ToTimestamp(now);
  SetState(entry, v1::FAILED, what, now, effects);
}

void Coordinator::SetState(JobEntry& entry, v1::JobState state,
                           const std::string& reason, absl::Time now,
                           Effects* effects) {
  entry.job().set_state(state);
  entry.job().set_reason(reason);
  if (IsFinal(state)) entry.job().mutable_progress()->clear_eta();
  jobs_.StateChanged(entry);
  v1::JobEvent event;
  v1::StateChange& change = *event.mutable_state_change();
  change.set_state(state);
  change.set_outcome(entry.job().outcome());
  change.set_reason(reason);
  if (entry.job().has_failure())
    *change.mutable_failure() = entry.job().failure();
  AddEvent(entry, std::move(event), now, effects);
}

void Coordinator::AddEvent(JobEntry& entry, v1::JobEvent event, absl::Time now,
                           Effects* effects) {
  entry.record.set_last_sequence(entry.record.last_sequence() + 1);
  event.set_job(entry.job().name());
  event.set_sequence(entry.record.last_sequence());
  event.set_attempt(entry.job().attempt());
  if (!event.has_time()) *event.mutable_time() = ToTimestamp(now);
  effects->events.push_back(std::move(event));
  Change(entry);
}

void Coordinator::TickAttempt(JobEntry& entry, absl::Time now,
                              Effects* effects) {
  const Attempt& attempt = entry.record.attempt();
  const v1::JobState state = entry.job().state();
  if (HasResult(attempt)) {
    if (now - entry.result_time > options_.finish_grace) StopAttempt(entry);
    if (now - entry.result_time > options_.model_deadline &&
        !ModelsAreStored(attempt) && !attempt.members(0).lost()) {
      entry.record.mutable_attempt()->mutable_members(0)->set_lost(true);
      AddFailure(entry, v1::RANK_LOST, 0,
                 "training ended, but its model did not arrive", now, effects);
      Advance(entry, now, effects);
    }
    return;
  }
  if (attempt.stopping()) return;
  if (state == v1::STARTING && now - entry.placed > options_.start_deadline) {
    for (int i = 0; i < attempt.members_size(); ++i) {
      if (attempt.members(i).phase() >= v1::MemberStatus::RUNNING) continue;
      AddFailure(entry, v1::RANK_LOST, i,
                 absl::StrCat("member ", i, " did not report within ",
                              absl::FormatDuration(options_.start_deadline)),
                 now, effects);
      break;
    }
    Advance(entry, now, effects);
  } else if (state == v1::RUNNING && entry.job().spec().has_time_limit()) {
    const absl::Duration limit =
        FromProtoDuration(entry.job().spec().time_limit());
    const absl::Duration ran =
        absl::Microseconds(entry.record.running_micros()) +
        (now - FromTimestamp(attempt.running_since()));
    if (limit <= absl::ZeroDuration() || ran <= limit) return;
    AddFailure(entry, v1::USER, -1,
               absl::StrCat("time_limit of ", absl::FormatDuration(limit),
                            " exceeded"),
               now, effects);
    Advance(entry, now, effects);
  }
}

absl::Status Coordinator::CheckUpload(
    const v1::UploadArtifactHeader& header) const {
  const auto ids = ParseArtifactName(header.artifact());
  if (!ids) {
    return absl::InvalidArgumentError(
        absl::StrCat("artifact: malformed name \"", header.artifact(), "\""));
  }
  const JobEntry* entry =
      const_cast<JobTable&>(jobs_).Find(JobName(ids->first));
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no job ", JobName(ids->first)));
  }
  if (!IsActive(entry->job().state()) ||
      header.attempt() != entry->job().attempt()) {
    return absl::AbortedError(absl::StrCat(
        entry->job().name(), " has no running attempt ", header.attempt()));
  }
  if (entry->record.attempt().uploads_size() >= kMaxUploads) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxUploads, " files were uploaded"));
  }
  return absl::OkStatus();
}

absl::Status Coordinator::ArtifactStored(const v1::UploadArtifactHeader& header,
                                         absl::Time now, Effects* effects) {
  absl::Status status = CheckUpload(header);
  if (!status.ok()) return status;
  JobEntry& entry =
      *jobs_.Find(JobName(ParseArtifactName(header.artifact())->first));
  AddUpload(header.artifact(), header.file(), entry.record.mutable_attempt());
  Change(entry);
  Advance(entry, now, effects);
  Finish(now, effects);
  return absl::OkStatus();
}

}  // namespace comera::server
