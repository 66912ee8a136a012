// Implements GangMember: phases, results and absence of one process.
#include "server/coordinator/job/gang_member.h"

namespace comera::server {

bool HasEnded(const MemberRecord& member) {
  return member.lost() || member.phase() == v1::MemberStatus::EXITED;
}

bool GangMember::HasStarted() const {
  return record_->phase() == v1::MemberStatus::RUNNING ||
         record_->phase() == v1::MemberStatus::EXITED;
}

bool GangMember::IsStartOverdue(absl::Duration deadline) const {
  if (HasStarted()) return false;
  return record_->phase() != v1::MemberStatus::STARTING || silent_ > deadline ||
         stalled_ > deadline;
}

bool GangMember::RunsOn(const std::string& worker,
                        const std::string& incarnation) const {
  return record_->worker() == worker && record_->incarnation() == incarnation;
}

bool GangMember::AdvancePhase(v1::MemberStatus::Phase phase) {
  if (phase <= record_->phase()) return false;
  record_->set_phase(phase);
  return true;
}

void GangMember::SetResult(const v1::MemberStatus& status) {
  *record_->mutable_result() = status.result();
  *record_->mutable_model() = status.model();
  *record_->mutable_target_models() = status.target_models();
}

GangMember::Absence GangMember::JudgeAbsence(
    bool stopping, int64_t seen_version, absl::Time now,
    absl::Duration missing_after) const {
  if (stopping) {
    return seen_version < stop_version_ ? Absence::kTolerated
                                        : Absence::kNeverStarted;
  }
  return seen_version >= start_version_ && now - last_listed_ > missing_after
             ? Absence::kMissing
             : Absence::kTolerated;
}

}  // namespace comera::server
