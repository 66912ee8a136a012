// Implements JobEntry: states, events, failures and checkpoints of one job.
#include "server/coordinator/job/job_entry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "proto/job_state.h"
#include "server/coordinator/job/job_checkpoints.h"
#include "server/coordinator/job/retry_policy.h"
#include "server/coordinator/job/start_from.h"
#include "server/coordinator/job/state_holders.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr size_t kMaxMessageBytes = 4096;
constexpr int kMaxIncidents = 64;
// Troubles of one attempt that become incidents.
constexpr size_t kMaxTroubles = 16;

}  // namespace

JobEntry::JobEntry(JobRecord record, JobIndex* index)
    : record_(std::move(record)),
      attempt_(&record_),
      demand_(DemandOf(record_.job().spec())),
      index_(index) {
  if (index_ != nullptr) index_->Update(job(), record_.serial(), this);
}

void JobEntry::Restore(int64_t first_version, absl::Time latest_retry,
                       absl::Duration lead, absl::Time now) {
  if (record_.has_retry_time()) {
    // The clock may be another one now.
    retry_at_ = std::min(FromTimestamp(record_.retry_time()), latest_retry);
  }
  if (const auto since = holder_wait(); since && *since > now) {
    *record_.mutable_holder_wait_time() = ToTimestamp(now);
  }
  AdoptStateHolders(&record_);
  if (!active()) return;
  attempt_.AdoptClock(lead, now);
  attempt_.Restore(first_version, now);
}

const JobRecord& JobEntry::CommitRevision(absl::Time now) {
  attempt_.MarkWritten(now);
  record_.set_revision(record_.revision() + 1);
  record_.mutable_job()->set_etag(absl::StrCat(record_.revision()));
  return record_;
}

void JobEntry::SetState(v1::JobState state, const std::string& reason,
                        Operation* op) {
  v1::Job& job = mutable_job();
  job.set_state(state);
  job.set_reason(reason);
  if (IsFinal(state)) job.mutable_progress()->clear_eta();
  wait_ = WaitReason();
  if (index_ != nullptr) index_->Update(job, record_.serial(), this);
  v1::JobEvent event;
  v1::StateChange& change = *event.mutable_state_change();
  change.set_state(state);
  change.set_outcome(job.outcome());
  change.set_reason(reason);
  if (job.has_failure()) *change.mutable_failure() = job.failure();
  AddEvent(std::move(event), op);
}

void JobEntry::End(v1::JobState state, const std::string& reason,
                   Operation* op) {
  lost_.reset();
  // A wish to pause it is not for the attempts of a later resume.
  mutable_job().set_pausing(false);
  *mutable_job().mutable_end_time() = ToTimestamp(op->now());
  SetState(state, reason, op);
}

void JobEntry::AddEvent(v1::JobEvent event, Operation* op) {
  record_.set_last_sequence(record_.last_sequence() + 1);
  event.set_job(name());
  event.set_sequence(record_.last_sequence());
  event.set_attempt(job().attempt());
  if (!event.has_time()) *event.mutable_time() = ToTimestamp(op->now());
  op->effects().events.push_back(std::move(event));
  MarkChanged(op);
}

bool JobEntry::SetWaitReason(const WaitReason& reason) {
  if (wait_ == reason) return false;
  wait_ = reason;
  mutable_job().set_reason(reason.Text());
  return true;
}

bool JobEntry::SetWaitText(const std::string& text) {
  // The scheduler's next reason is news again.
  wait_ = WaitReason();
  if (job().reason() == text) return false;
  mutable_job().set_reason(text);
  return true;
}

void JobEntry::AddIncident(v1::FailureClass failure_class,
                           const std::string& message, Operation* op) {
  v1::Failure failure;
  failure.set_failure_class(failure_class);
  failure.set_message(message);
  failure.set_rank(-1);
  AddIncident(std::move(failure), op);
}

void JobEntry::AddTrouble(const v1::MemberTrouble& trouble, Operation* op) {
  if (troubled_attempt_ != job().attempt()) {
    troubled_attempt_ = job().attempt();
    troubles_.clear();
  }
  if (troubles_.size() >= kMaxTroubles ||
      !troubles_.emplace(trouble.failure_class(), trouble.message()).second) {
    return;
  }
  AddIncident(trouble.failure_class(), trouble.message(), op);
}

void JobEntry::AddIncident(v1::Failure failure, Operation* op) {
  if (failure.failure_class() == v1::FAILURE_CLASS_UNSPECIFIED ||
      !v1::FailureClass_IsValid(failure.failure_class())) {
    failure.set_failure_class(v1::INTERNAL);
  }
  failure.set_attempt(job().attempt());
  failure.set_message(TruncateUtf8(failure.message(), kMaxMessageBytes));
  failure.set_log_tail(TruncateUtf8(failure.log_tail(), kMaxMessageBytes));
  if (!failure.has_time()) *failure.mutable_time() = ToTimestamp(op->now());
  const auto& known = job().incidents();
  const bool repeated =
      std::any_of(known.begin(), known.end(), [&](const v1::Failure& other) {
        return other.attempt() == failure.attempt() &&
               other.failure_class() == failure.failure_class() &&
               other.message() == failure.message();
      });
  if (repeated) return;
  KeepIncidents({failure});
  v1::JobEvent event;
  *event.mutable_incident() = std::move(failure);
  AddEvent(std::move(event), op);
}

void JobEntry::KeepIncidents(const std::vector<v1::Failure>& failures) {
  for (const v1::Failure& failure : failures) {
    if (job().incidents_size() >= kMaxIncidents) return;
    *mutable_job().add_incidents() = failure;
  }
}

int32_t JobEntry::CountLossInRow() {
  record_.set_losses_in_row(record_.losses_in_row() + 1);
  return record_.losses_in_row();
}

void JobEntry::ScheduleRetry(absl::Duration delay, absl::Time now) {
  retry_at_ = now + delay;
  record_.clear_retry_time();
  if (delay > absl::ZeroDuration()) {
    *record_.mutable_retry_time() = ToTimestamp(retry_at_);
  }
}

void JobEntry::StartOver() {
  record_.set_start_over(true);
  mutable_job().clear_checkpoints();
  mutable_job().mutable_progress()->set_step(0);
}

void JobEntry::Reopen() {
  v1::Job& job = mutable_job();
  if (job.has_failure()) KeepIncidents({job.failure()});
  job.clear_failure();
  job.clear_end_time();
  // An earlier version left it set.
  job.set_pausing(false);
  record_.set_infrastructure_losses(0);
  record_.set_training_losses(0);
  record_.clear_class_losses();
  record_.set_losses_in_row(0);
  record_.clear_retry_time();
  record_.set_resizing(false);
  record_.set_running_micros(0);
  retry_at_ = absl::InfinitePast();
}

void JobEntry::RecordStart(const v1::TrainingStateKey& from) {
  const bool wanted = record_.start_over();
  record_.set_start_over(false);
  // Nothing came before the first attempt.
  if (attempt_.number() == 0) return;
  // What the owner has given up stays given up.
  record_.set_start_pending(!wanted);
  *record_.mutable_starts_before() = record_.starts();
  AddStart(attempt_.number() + 1, from, record_.mutable_starts());
  if (wanted) ConfirmStart();
}

void JobEntry::ConfirmStart() {
  record_.set_start_pending(false);
  record_.clear_starts_before();
  DropStale(lineage(), &mutable_job());
}

void JobEntry::RevertStart() {
  if (record_.start_pending()) {
    *record_.mutable_starts() = record_.starts_before();
  }
  record_.set_start_pending(false);
  record_.clear_starts_before();
}

void JobEntry::CheckBegun(int64_t step, Operation* op) {
  ConfirmStart();
  const v1::TrainingStateKey* from = start();
  if (from == nullptr || step >= from->step()) return;
  AddIncident(
      v1::CHECKPOINT_UNREACHABLE,
      absl::StrCat("attempt ", attempt_.number(), " was to go on from step ",
                   from->step(), " and began from step ", step),
      op);
  v1::TrainingStateKey real;
  real.set_step(std::max<int64_t>(step, 0));
  AddStart(attempt_.number(), real, record_.mutable_starts());
  DropStale(lineage(), &mutable_job());
}

std::optional<int64_t> JobEntry::ExcludeStart() {
  v1::TrainingStateKey bad;
  if (const v1::TrainingStateKey* from = start(); from && IsState(*from)) {
    bad = *from;
  } else if (!job().checkpoints().empty()) {
    // A member of an earlier version has tried all that it found.
    bad.set_step(job().checkpoints().rbegin()->step());
  } else {
    return std::nullopt;
  }
  RevertStart();
  ExcludeStates(attempt_.number(), bad.step(), record_.mutable_starts());
  DropStale(lineage(), &mutable_job());
  return bad.step();
}

const v1::TrainingStateKey* JobEntry::start() const {
  return lineage().StartOf(attempt_.number());
}

bool JobEntry::resumes() const {
  if (const v1::TrainingStateKey* from = start()) return IsState(*from);
  return job().attempt() > 1 && !record_.start_over();
}

std::optional<absl::Time> JobEntry::holder_wait() const {
  if (!record_.has_holder_wait_time()) return std::nullopt;
  return FromTimestamp(record_.holder_wait_time());
}

void JobEntry::BeginHolderWait(Operation* op) {
  if (record_.has_holder_wait_time()) return;
  *record_.mutable_holder_wait_time() = ToTimestamp(op->now());
  MarkChanged(op);
}

void JobEntry::EndHolderWait(Operation* op) {
  aside_.reset();
  if (!record_.has_holder_wait_time()) return;
  record_.clear_holder_wait_time();
  MarkChanged(op);
}

bool JobEntry::IsForgiven(v1::FailureClass cause) const {
  return record_.attempt().mass_silence() && record_.losses_in_row() == 0 &&
         IsInfrastructure(cause);
}

bool JobEntry::ChargeRetry(v1::FailureClass cause) {
  return IsForgiven(cause) || server::ChargeRetry(cause, &record_);
}

void JobEntry::Readopt(absl::Time now) {
  const JobRecord& lost = *lost_;
  record_.set_infrastructure_losses(lost.infrastructure_losses());
  record_.set_training_losses(lost.training_losses());
  *record_.mutable_class_losses() = lost.class_losses();
  record_.set_losses_in_row(lost.losses_in_row());
  record_.set_running_micros(lost.running_micros());
  *record_.mutable_last_workers() = lost.last_workers();
  record_.set_start_over(lost.start_over());
  *record_.mutable_starts() = lost.starts();
  record_.set_start_pending(lost.start_pending());
  *record_.mutable_starts_before() = lost.starts_before();
  record_.set_resizing(false);
  record_.clear_holder_wait_time();
  ScheduleRetry(absl::ZeroDuration(), now);
  aside_.reset();
  attempt_.Readopt(lost.attempt(), now);
  ForgetLost();
}

void JobEntry::CountPreemption() {
  record_.set_preemptions(record_.preemptions() + 1);
}

void JobEntry::SetTargetProcesses(int32_t processes) {
  record_.set_target_processes(processes);
}

void JobEntry::NoteKeeper(const std::string& worker, Operation* op) {
  if (NoteStateKeeper(worker, &record_)) MarkChanged(op);
}

void JobEntry::RecordCheckpoint(const v1::CheckpointSaved& saved,
                                const std::string& worker, absl::Time now) {
  ConfirmStart();
  RecordSaved(saved, attempt_.number(), worker, now, &mutable_job());
  // The job does get somewhere.
  attempt_.NoteProgress();
  if (saved.step() > record_.best_step()) {
    // A state that is saved because the gang ends says nothing of how long it
    // would have lasted.
    if (!attempt_.stopping()) RefillRetries(&record_);
    record_.set_best_step(saved.step());
  }
  record_.set_losses_in_row(0);
  record_.set_start_over(false);
}

void JobEntry::PublishModels(absl::Time now) {
  const MemberRecord& member = attempt_.members()[0].record();
  const auto publish = [&](v1::Artifact model) {
    *model.mutable_create_time() = ToTimestamp(now);
    *mutable_job().add_models() = std::move(model);
  };
  for (const v1::Artifact& model : member.target_models()) {
    if (IsEarlyStage(model)) {
      AddEarlyStage(model, member.result().step(), now, &mutable_job());
    } else {
      publish(model);
    }
  }
  // The job's model is the newest of all.
  if (!member.model().name().empty()) publish(member.model());
}

}  // namespace comera::server
