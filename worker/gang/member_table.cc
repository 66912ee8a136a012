// Decides which members to start, stop and kill, and follows their events and
// ends.

#include "worker/gang/member_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "worker/gang/member_failure.h"

namespace comera::worker {
namespace {

// The limit on a failure's texts, because every call repeats every status.
constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kMaxActivityBytes = 200;
// A job has two stages, between which it may go back some times.
constexpr size_t kMaxStageChanges = 1000;
// The number of jobs whose last attempt is remembered.
constexpr size_t kMaxBegun = 100000;
// The time that a member has from its result to its end; then it is killed, and
// has succeeded.
constexpr absl::Duration kEndAfterResult = absl::Seconds(30);
// The longest time between two calls of Reconcile while all is well.
constexpr absl::Duration kMaxReconcileInterval = absl::Seconds(6);

// `saved`: the member had time to write a checkpoint, so that nothing is lost.
v1::Failure ShutDownFailure(const v1::MemberKey& rank, bool saved,
                            const std::string& why, absl::Time now) {
  return MakeFailure(saved ? v1::PREEMPTED : v1::NODE_LOST,
                     why.empty() ? "the worker was shut down" : why, rank, now);
}

// The class of a member's failure to start. If the slot or the machine is to
// blame, the job is tried again, elsewhere if there are free slots.
v1::FailureClass ClassOfStart(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return v1::DISK_FULL;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnavailable:
      return v1::RANK_LOST;
    // The job asks for something that it may not have.
    case absl::StatusCode::kInvalidArgument:
      return v1::USER;
    default:
      return v1::INTERNAL;
  }
}

}  // namespace

MemberTable::MemberTable(const std::vector<v1::Slot>& slots,
                         std::function<absl::Time()> steady)
    : steady_(std::move(steady)) {
  for (const v1::Slot& slot : slots) slots_.insert(slot.index());
}

void MemberTable::SetDesired(
    const google::protobuf::RepeatedPtrField<v1::MemberAssignment>& desired) {
  desired_.clear();
  for (const v1::MemberAssignment& assignment : desired) {
    desired_[KeyOf(assignment)] = assignment;
  }
}

bool MemberTable::MayStart(const v1::MemberAssignment& assignment) const {
  if (shutting_down_ || !gave_up_.empty() ||
      slots_.count(assignment.slot()) == 0) {
    return false;
  }
  const auto begun = begun_.find({assignment.job(), assignment.rank()});
  if (begun != begun_.end() && begun->second >= assignment.attempt()) {
    return false;
  }
  return std::none_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
    const v1::MemberAssignment& other = entry.second.assignment;
    return entry.second.process &&
           (other.slot() == assignment.slot() ||
            // Attempts of a job share the folder of its checkpoints.
            (other.job() == assignment.job() &&
             other.attempt() != assignment.attempt()));
  });
}

MemberTable::Actions MemberTable::Reconcile(absl::Time now) {
  Actions actions;
  for (auto& [key, rank] : ranks_) {
    if (upload_again_.count(key) > 0)
      actions.upload_again.push_back(ToProto(key));
    const bool late = steady_() - rank.result_time > kEndAfterResult;
    if (rank.process && !rank.kill_reported && (late || kill_.count(key) > 0)) {
      rank.kill_reported = true;
      rank.forced = late;
      rank.stopping = true;
      actions.kill.push_back(rank.id);
    }
    const bool wanted =
        desired_.count(key) > 0 && (gave_up_.empty() || !rank.process);
    if (wanted && !shutting_down_) continue;
    if (rank.process && !rank.stopping) {
      rank.stopping = true;
      if (!gave_up_.empty()) rank.stop_why = gave_up_;
      if (shutting_down_) rank.stop_why = "the worker was shut down";
      actions.stop.push_back(rank.id);
    }
    if (!rank.uploading) continue;
    // A member that has finished before it heard of the stop still delivers its
    // model; the coordinator refuses what it does not want any more.
    actions.stop_retrying.push_back(ToProto(key));
    if (shutting_down_) {
      rank.uploading = false;
      rank.failure = ShutDownFailure(ToProto(key), false, "", now);
      End(rank);
    }
  }
  upload_again_.clear();
  for (const auto& [key, assignment] : desired_) {
    if (ranks_.count(key) > 0 || !MayStart(assignment)) continue;
    if (begun_.size() >= kMaxBegun) begun_.erase(begun_.begin());
    begun_[{assignment.job(), assignment.rank()}] = assignment.attempt();
    // Keeps the end of an older attempt from removing this one's files.
    finished_jobs_.erase(assignment.job());
    const Member& rank = ranks_[key] = Begin(next_id_++, assignment);
    actions.start.push_back({rank.id, assignment});
  }
  return actions;
}

MemberTable::Member MemberTable::Begin(
    GangMembers::Id id, const v1::MemberAssignment& assignment) const {
  Member rank;
  rank.id = id;
  rank.assignment = assignment;
  rank.progress_time = rank.heard_time = steady_();
  rank.status.set_job(assignment.job());
  rank.status.set_attempt(assignment.attempt());
  rank.status.set_rank(assignment.rank());
  rank.status.set_slot(assignment.slot());
  rank.status.set_phase(v1::MemberStatus::STARTING);
  return rank;
}

MemberTable::Member* MemberTable::FindById(GangMembers::Id id) {
  for (auto& [key, rank] : ranks_) {
    if (rank.id == id) return &rank;
  }
  return nullptr;
}

void MemberTable::StartFailed(GangMembers::Id id, const absl::Status& status,
                              absl::Time now) {
  Member* rank = FindById(id);
  if (rank == nullptr) return;
  rank->process = false;
  rank->failure =
      MakeFailure(ClassOfStart(status),
                  absl::StrCat("member ", rank->assignment.rank(),
                               " could not be started: ", status.ToString()),
                  ToProto(KeyOf(rank->assignment)), now);
  End(*rank);
}

void MemberTable::FetchFailed(GangMembers::Id id, const absl::Status& status,
                              absl::Time now) {
  Member* rank = FindById(id);
  if (rank == nullptr) return;
  rank->process = false;
  const v1::MemberKey key = ToProto(KeyOf(rank->assignment));
  if (shutting_down_ || !rank->stop_why.empty()) {
    // It had not begun, so nothing is lost.
    rank->failure = ShutDownFailure(ToProto(KeyOf(rank->assignment)), true,
                                    rank->stop_why, now);
  } else if (!rank->stopping) {
    const std::optional<v1::FailureClass> known = FailureClassIn(status);
    std::string what = "its data could not be fetched: ";
    v1::FailureClass failure_class = v1::RANK_LOST;
    if (known.has_value()) {
      failure_class = *known;
      what.clear();
    } else if (absl::IsNotFound(status) || absl::IsDataLoss(status) ||
               absl::IsInvalidArgument(status)) {
      failure_class = v1::DATA;
    } else if (absl::IsResourceExhausted(status)) {
      failure_class = v1::DISK_FULL;
    }
    rank->failure = MakeFailure(
        failure_class,
        TruncateUtf8(absl::StrCat("member ", key.rank(), ": ", what,
                                  ToUtf8(std::string(status.message()))),
                     kMaxTextBytes),
        key, now);
  }
  End(*rank);
}

bool MemberTable::IsAwaited(GangMembers::Id id) const {
  for (const auto& [key, rank] : ranks_) {
    if (rank.id == id) return !rank.stopping && !shutting_down_;
  }
  return false;
}

void MemberTable::Preparing(GangMembers::Id id) {
  if (Member* rank = FindById(id)) rank->preparing = true;
}

void MemberTable::PreparationMoved(GangMembers::Id id,
                                   const std::string& activity) {
  Member* rank = FindById(id);
  if (rank == nullptr || !rank->preparing) return;
  rank->progress_time = rank->heard_time = steady_();
  rank->status.set_activity(TruncateUtf8(activity, kMaxActivityBytes));
}

void MemberTable::Launching(GangMembers::Id id) {
  Member* rank = FindById(id);
  if (rank == nullptr) return;
  rank->preparing = false;
  rank->progress_time = rank->heard_time = steady_();
}

void MemberTable::Adopt(const MemberRecord& record) {
  const v1::MemberAssignment& assignment = record.assignment();
  next_id_ = std::max(next_id_, record.id() + 1);
  int64_t& begun = begun_[{assignment.job(), assignment.rank()}];
  begun = std::max(begun, assignment.attempt());
  Member& rank = ranks_[KeyOf(assignment)];
  rank = Begin(record.id(), assignment);
  rank.reported_stages[record.events_offset()] = record.reported_stage();
  rank.handled = record.events_offset();
  // Its first events were told by the daemon that started it.
  if (rank.handled > 0) rank.status.set_phase(v1::MemberStatus::RUNNING);
  // Until the coordinator answers, it wants what it wanted before.
  desired_[KeyOf(assignment)] = assignment;
}

bool MemberTable::OnEvent(GangMembers::Id id, const v1::TrainerEvent& event,
                          int64_t end) {
  Member* rank = FindById(id);
  if (rank == nullptr) return false;
  rank->handled = std::max(rank->handled, end);
  if (rank->status.phase() == v1::MemberStatus::STARTING) {
    rank->status.set_phase(v1::MemberStatus::RUNNING);
  }
  rank->heard_time = steady_();
  if (event.has_heartbeat()) {
    const v1::Heartbeat& beat = event.heartbeat();
    v1::MemberStatus& status = rank->status;
    const std::string activity =
        TruncateUtf8(beat.activity(), kMaxActivityBytes);
    if (beat.step() != status.step() || beat.stage() != status.stage() ||
        beat.collectives() != status.collectives() ||
        beat.collectives_begun() != status.collectives_begun() ||
        beat.work() != rank->work || activity != status.activity()) {
      rank->progress_time = rank->heard_time;
    }
    rank->work = beat.work();
    status.set_step(beat.step());
    status.set_stage(beat.stage());
    status.set_collectives(beat.collectives());
    status.set_collectives_begun(beat.collectives_begun());
    status.set_activity(activity);
  } else if (event.has_metrics()) {
    rank->status.set_step(event.metrics().step());
  }
  // A member that is being stopped has no failure of its own.
  if (event.has_failure() && !rank->failure && !rank->stopping) {
    rank->failure = event.failure();
    rank->failure->set_message(
        TruncateUtf8(event.failure().message(), kMaxTextBytes));
    rank->failure->set_log_tail(
        TruncateUtf8(event.failure().log_tail(), kMaxTextBytes));
    rank->failure->set_attempt(rank->assignment.attempt());
    rank->failure->set_rank(rank->assignment.rank());
  }
  // Only member 0 reports the progress of the job.
  if (rank->assignment.rank() != 0 || event.has_failure()) return true;
  if (event.has_heartbeat()) {
    const v1::Stage stage = event.heartbeat().stage();
    if (stage == ReportedStage(*rank, rank->handled) ||
        rank->reported_stages.size() >= kMaxStageChanges) {
      return true;
    }
    rank->reported_stages[rank->handled] = stage;
  }
  if (event.has_result()) {
    rank->result = event.result();
    rank->result_time = steady_();
  }
  // Snapshots are the business of this worker alone.
  if (event.has_checkpoint() && event.checkpoint().snapshot()) return true;
  if (event.event_case() != v1::TrainerEvent::EVENT_NOT_SET) {
    reports_[{rank->assignment.job(), rank->assignment.attempt()}].Add(
        event, end == 0 ? 0 : kFirstNumber + end);
  }
  return true;
}

std::optional<v1::MemberKey> MemberTable::OnExit(GangMembers::Id id,
                                                 const MemberExit& exit,
                                                 absl::Time now) {
  Member* rank = FindById(id);
  if (rank == nullptr) return std::nullopt;
  const v1::MemberKey key = ToProto(KeyOf(rank->assignment));
  const bool ended_well = exit.known && exit.signal == 0 && exit.code == 0;
  // The model was written before the result was reported.
  const bool succeeded =
      ended_well || ((rank->forced || !exit.known) && rank->result);
  rank->process = false;
  rank->status.set_log_tail(TruncateUtf8(ToUtf8(exit.log_tail), kMaxTextBytes));
  rank->status.set_peak_memory_bytes(exit.peak_memory_bytes);
  if (succeeded && rank->result && !shutting_down_) {
    rank->failure.reset();
    rank->uploading = true;
    return key;
  }
  if (rank->failure) {
    if (rank->failure->log_tail().empty()) {
      rank->failure->set_log_tail(ToUtf8(exit.log_tail));
    }
  } else if (shutting_down_ || !rank->stop_why.empty()) {
    rank->failure = ShutDownFailure(ToProto(KeyOf(rank->assignment)),
                                    ended_well, rank->stop_why, now);
  } else if (!rank->stopping && (!succeeded || key.rank() == 0)) {
    rank->failure = FailureOfExit(exit, key, now);
  }
  End(*rank);
  return std::nullopt;
}

void MemberTable::OnUpload(
    const v1::MemberKey& key,
    const absl::StatusOr<std::vector<v1::Artifact>>& models, absl::Time now) {
  const auto it = ranks_.find(KeyOf(key));
  if (it == ranks_.end() || !it->second.uploading) return;
  Member& rank = it->second;
  rank.uploading = false;
  if (models.ok()) {
    *rank.status.mutable_result() = *rank.result;
    const int targets = static_cast<int>(models->size()) - 1;
    for (int i = 0; i < targets; ++i) {
      v1::Artifact& artifact = *rank.status.add_target_models();
      artifact = (*models)[i];
      if (i >= rank.result->targets_size()) continue;
      const v1::TargetResult& target = rank.result->targets(i);
      artifact.set_validation_loss(target.validation_loss());
      artifact.set_size_parameters(target.size_parameters());
    }
    v1::Artifact& artifact = *rank.status.mutable_model();
    artifact = models->back();
    artifact.set_validation_loss(rank.result->validation_loss());
    artifact.set_size_parameters(rank.result->size_parameters());
  } else if (!absl::IsAborted(models.status()) &&
             !absl::IsNotFound(models.status())) {
    // A full quota is nobody's bug, and training again would not help.
    rank.failure = MakeFailure(
        absl::IsResourceExhausted(models.status()) ? v1::USER : v1::INTERNAL,
        absl::StrCat("the model could not be stored: ",
                     models.status().ToString()),
        key, now);
  }
  End(rank);
}

// The member sends nothing more: its end can be reported.
void MemberTable::End(Member& rank) {
  rank.status.set_phase(v1::MemberStatus::EXITED);
  if (rank.failure) *rank.status.mutable_failure() = *rank.failure;
}

void MemberTable::ForgiveOwnPause() {
  const absl::Time now = steady_();
  const absl::Duration pause = now - last_reconcile_;
  last_reconcile_ = now;
  if (pause <= kMaxReconcileInterval) return;
  for (auto& [key, rank] : ranks_) {
    rank.progress_time = std::min(rank.progress_time + pause, now);
    rank.heard_time = std::min(rank.heard_time + pause, now);
  }
}

}  // namespace comera::worker
