// Implements MemberReports: gangs follow what workers say of their members.
#include "server/coordinator/synchronize/member_reports.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/resource_names.h"

namespace comera::server {
namespace {

// Whether all models of the result are the job's own.
bool OwnsModels(const JobEntry& entry, const v1::MemberStatus& status) {
  const auto owns = [&](const v1::Artifact& model) {
    const auto ids = ParseArtifactName(model.name());
    return ids && JobName(ids->first) == entry.name();
  };
  return (status.model().name().empty() || owns(status.model())) &&
         std::all_of(status.target_models().begin(),
                     status.target_models().end(), owns);
}

void SetKey(const v1::MemberStatus& status, v1::MemberKey* key) {
  key->set_job(status.job());
  key->set_attempt(status.attempt());
  key->set_rank(status.rank());
}

}  // namespace

void MemberReports::Apply(const v1::SynchronizeRequest& request,
                          WorkerState& worker, Operation* op) {
  std::set<int32_t> occupied;
  for (const v1::MemberStatus& status : request.members()) {
    if (status.phase() != v1::MemberStatus::EXITED) {
      occupied.insert(status.slot());
    }
    JobEntry* entry = jobs_->FindAttempt(status.job(), status.attempt());
    const GangMember* member =
        entry == nullptr ? nullptr : entry->attempt().FindMember(status.rank());
    if (member != nullptr && !member->lost() &&
        member->RunsOn(worker.id(), worker.incarnation())) {
      ApplyStatus(status, *entry, op);
    }
  }
  if (worker.SetOccupied(std::move(occupied))) op->RequestSchedule();
  const std::set<std::string> jobs = worker.jobs();
  for (const std::string& name : jobs) {
    JobEntry& entry = *jobs_->Find(name);
    FindMissing(request, entry, op);
    lifecycle_->CheckHang(entry, op);
    lifecycle_->Advance(entry, op);
  }
}

void MemberReports::ApplyStatus(const v1::MemberStatus& status, JobEntry& entry,
                                Operation* op) {
  entry.attempt().ObserveMember(status, op->now());
  GangMember& member = *entry.attempt().FindMember(status.rank());
  if (!member.AdvancePhase(status.phase())) return;
  entry.MarkChanged(op);
  if (status.phase() == v1::MemberStatus::EXITED) ApplyExit(status, entry, op);
}

void MemberReports::ApplyExit(const v1::MemberStatus& status, JobEntry& entry,
                              Operation* op) {
  GangMember& member = *entry.attempt().FindMember(status.rank());
  workers_->MarkChanged(member.worker(), op);
  op->RequestSchedule();
  if (member.number() == 0 && status.has_result()) {
    if (OwnsModels(entry, status)) {
      member.SetResult(status);
    } else {
      failures_->Record(entry, v1::INTERNAL, 0,
                        absl::StrCat("worker ", member.worker(),
                                     " reported a model outside the job"),
                        op);
    }
  } else if (status.has_failure()) {
    v1::Failure failure = status.failure();
    failure.set_rank(member.number());
    failures_->Record(entry, std::move(failure), op);
  }
  entry.attempt().AddLogTail(member.number(), status.log_tail());
}

void MemberReports::FindMissing(const v1::SynchronizeRequest& request,
                                JobEntry& entry, Operation* op) {
  Attempt& attempt = entry.attempt();
  std::set<int32_t> listed;
  bool older_lives = false;
  for (const v1::MemberStatus& status : request.members()) {
    if (status.job() != entry.name()) continue;
    if (status.attempt() == attempt.number()) {
      listed.insert(status.rank());
    } else if (status.phase() != v1::MemberStatus::EXITED) {
      older_lives = true;
    }
  }
  for (GangMember& member : attempt.members()) {
    if (member.worker() != request.worker() || member.HasEnded() ||
        listed.count(member.number()) > 0) {
      continue;
    }
    // The worker starts no member before the process of an older attempt is
    // gone, which takes up to its grace period; start_deadline bounds the wait.
    if (older_lives) member.MarkListed(op->now());
    const GangMember::Absence absence = member.JudgeAbsence(
        attempt.stopping(), request.seen_version(), op->now(), missing_after_);
    if (absence == GangMember::Absence::kTolerated) continue;
    member.Lose();
    entry.MarkChanged(op);
    if (absence == GangMember::Absence::kMissing) {
      failures_->Record(entry, v1::RANK_LOST, member.number(),
                        absl::StrCat("worker ", member.worker(),
                                     " has no member ", member.number()),
                        op);
    }
  }
}

void MemberReports::ApplyRendezvous(const v1::SynchronizeRequest& request,
                                    Operation* op) {
  for (const v1::RendezvousEntry& given : request.rendezvous()) {
    JobEntry* entry = jobs_->FindAttempt(given.job(), given.attempt());
    if (entry == nullptr) continue;
    Attempt& attempt = entry->attempt();
    const auto writer = std::find_if(
        attempt.members().begin(), attempt.members().end(),
        [&](const GangMember& member) {
          return member.RunsOn(request.worker(), request.incarnation());
        });
    if (writer == attempt.members().end()) continue;
    const absl::StatusOr<bool> changed = attempt.rendezvous().Put(
        request.worker(), given.key(), given.value(),
        RendezvousMirror::MaxBytes(attempt.members().size()));
    // The workers repeat what has no room.
    if (!changed.ok() && !attempt.HasFailures()) {
      failures_->Record(
          *entry, v1::USER, writer->number(),
          absl::StrCat("the members leave too much for each other in their "
                       "rendezvous folder: ",
                       std::string(changed.status().message())),
          op);
    }
    if (!changed.ok() || !*changed) continue;
    for (const GangMember& member : attempt.members()) {
      if (member.worker() != request.worker()) {
        workers_->MarkChanged(member.worker(), op);
      }
    }
  }
}

void MemberReports::AcknowledgeExits(const v1::SynchronizeRequest& request,
                                     v1::SynchronizeResponse* response) {
  for (const v1::MemberStatus& status : request.members()) {
    if (status.phase() != v1::MemberStatus::EXITED) continue;
    const JobEntry* entry = jobs_->FindAttempt(status.job(), status.attempt());
    // Member 0 is remembered by its worker until its model has arrived.
    const bool owes_model = entry != nullptr && status.rank() == 0 &&
                            entry->attempt().HasResult() &&
                            !entry->attempt().ModelsAreStored();
    SetKey(status, owes_model ? response->add_missing_models()
                              : response->add_forget());
  }
}

}  // namespace comera::server
