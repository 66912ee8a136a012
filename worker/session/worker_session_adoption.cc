// Goes on with the members of an earlier daemon, and keeps the records by which
// a later one can do so.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/gang/gang.h"
#include "worker/gang/stray_processes.h"
#include "worker/session/worker_session.h"

namespace comera::worker {
namespace {

constexpr absl::Duration kKillTimeout = absl::Seconds(10);
// The bytes of events that a later daemon reads once more at most, beside those
// that the coordinator does not have.
constexpr int64_t kMostReadAgain = int64_t{1} << 20;

v1::MemberKey KeyOf(const v1::MemberAssignment& assignment) {
  v1::MemberKey key;
  key.set_job(assignment.job());
  key.set_attempt(assignment.attempt());
  key.set_rank(assignment.rank());
  return key;
}

bool Equal(const google::protobuf::RepeatedPtrField<v1::Peer>& a,
           const std::vector<v1::Peer>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const v1::Peer& x, const v1::Peer& y) {
                      return x.SerializeAsString() == y.SerializeAsString();
                    });
}

// Removes what a member left whose process is gone or never was, because the
// name of its group may be used again.
void RemoveCgroup(const MemberRecord& record) {
  if (record.cgroup_path().empty()) return;
  const auto cgroup = MemberCgroups::Adopt(record.cgroup_path());
  if (cgroup.ok()) (*cgroup)->KillAll(kKillTimeout);
}

}  // namespace

absl::StatusOr<std::vector<MemberRecord>> WorkerSession::ClaimRecords() {
  std::vector<MemberRecord> taken;
  std::set<std::string> marks;
  for (MemberRecord& record : records_.Load()) {
    if (MembersSurvive() && MemberRecords::CanBeAdopted(record) &&
        record.incarnation() == options_.incarnation) {
      // What was cut short between fork and here is killed.
      if (record.pid() > 0) {
        marks.insert(GangMembers::MarkOf(
            absl::StrCat(options_.data_dir, "#", options_.incarnation),
            record.id()));
      }
      taken.push_back(std::move(record));
      continue;
    }
    RETURN_IF_ERROR(MemberRecords::Kill(record, kKillTimeout));
    RemoveCgroup(record);
    records_.Remove(record.id());
  }
  if (MembersSurvive()) {
    const absl::Status kept = records_.KeepIncarnation(options_.incarnation);
    LOG_IF(ERROR, !kept.ok()) << "incarnation not kept " << kept;
  } else {
    records_.ForgetIncarnation();
  }
  // Also kills what they had started in process groups of its own.
  RETURN_IF_ERROR(
      KillMarked(absl::StrCat(options_.data_dir, "#"), kKillTimeout, marks));
  return taken;
}

absl::Status WorkerSession::AdoptMembers(
    const std::vector<MemberRecord>& records) {
  // All are in the table before the first of them can end.
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const MemberRecord& record : records) {
      table_.Adopt(record);
      recorded_[record.id()] = record;
    }
  }
  for (const MemberRecord& record : records) {
    if (record.pid() == 0) {
      RemoveCgroup(record);
      const std::lock_guard<std::mutex> lock(mutex_);
      adopted_data_.erase(record.id());
      table_.StartFailed(
          record.id(),
          absl::UnavailableError("the worker ended while it started it"),
          absl::Now());
      continue;
    }
    ASSIGN_OR_RETURN(const int pidfd, MemberRecords::Open(record));
    Adopt(record, pidfd);
  }
  return absl::OkStatus();
}

void WorkerSession::Adopt(const MemberRecord& record, int pidfd) {
  const v1::MemberKey key = KeyOf(record.assignment());
  AdoptedMember member;
  member.pid = record.pid();
  member.pidfd = pidfd;
  member.events_path = record.events_path();
  member.events_offset = record.events_offset();
  member.log_path = record.log_path();
  if (!record.cgroup_path().empty()) {
    auto cgroup = MemberCgroups::Adopt(record.cgroup_path());
    LOG_IF(WARNING, !cgroup.ok()) << "cgroup lost " << cgroup.status();
    if (cgroup.ok()) member.cgroup = *std::move(cgroup);
  }
  LOG(INFO) << "member adopted " << DescribeMember(key)
            << " slot=" << record.assignment().slot() << " pid=" << member.pid
            << " alive=" << (pidfd >= 0);
  if (options_.metrics != nullptr) {
    options_.metrics->OnMemberStarted(key.job(), key.attempt());
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    logs_.Begin(key, member.log_path);
    if (gpus_ != nullptr && !record.gpu_uuid().empty()) {
      gpu_of_[record.id()] = record.gpu_uuid();
    }
  }
  processes_->Adopt(record.id(), std::move(member));
}

absl::Status WorkerSession::Record(const MemberTable::Actions::Start& start,
                                   const MemberCommand& command, pid_t pid) {
  MemberRecord record;
  MemberRecords::Identify(pid, &record);
  record.set_id(start.id);
  *record.mutable_assignment() = start.assignment;
  record.set_incarnation(options_.incarnation);
  record.set_survives(command.survives);
  record.set_events_path(command.events_path);
  record.set_log_path(command.log_path);
  if (command.cgroup) record.set_cgroup_path(command.cgroup->path());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto gpu = gpu_of_.find(start.id); gpu != gpu_of_.end()) {
    record.set_gpu_uuid(gpu->second);
  }
  record.set_reported_stage(table_.StageAtStart(start.id));
  recorded_[start.id] = record;
  return Save(record);
}

absl::Status WorkerSession::Save(const MemberRecord& record) {
  const absl::Status written = records_.Write(record);
  if (written.ok()) {
    unwritten_.erase(record.id());
  } else if (record.pid() != 0) {
    unwritten_.insert(record.id());
  }
  return written;
}

// Without its process in the record, the next daemon would take the member for
// one that was never started.
void WorkerSession::SaveAgain() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (GangMembers::Id id : std::set<GangMembers::Id>(unwritten_)) {
    if (Save(recorded_.at(id)).ok()) LOG(INFO) << "record written id=" << id;
  }
}

void WorkerSession::UpdateRecords() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (GangMembers::Id id : table_.PopForgotten()) {
    records_.Remove(id);
    recorded_.erase(id);
    unwritten_.erase(id);
  }
  // The next daemon copies to these until it has an answer.
  for (auto& [id, record] : recorded_) {
    auto& known = *record.mutable_assignment()->mutable_replicas();
    const std::vector<v1::Peer> replicas =
        table_.Replicas(KeyOf(record.assignment()));
    if (replicas.empty() || Equal(known, replicas)) continue;
    known.Assign(replicas.begin(), replicas.end());
    const absl::Status written = Save(record);
    LOG_IF(ERROR, !written.ok())
        << "record pid=" << record.pid() << " " << written;
  }
  for (const MemberTable::Settled& settled : table_.ListSettled()) {
    const auto it = recorded_.find(settled.id);
    if (it == recorded_.end() ||
        settled.events_offset - it->second.events_offset() < kMostReadAgain) {
      continue;
    }
    MemberRecord& record = it->second;
    record.set_events_offset(settled.events_offset);
    record.set_reported_stage(settled.reported_stage);
    const absl::Status written = Save(record);
    LOG_IF(ERROR, !written.ok())
        << "record pid=" << record.pid() << " " << written;
    if (written.ok())
      processes_->ForgetEvents(settled.id, record.events_offset());
  }
}

void WorkerSession::LeaveMembers() {
  size_t members = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    members = table_.Processes().size();
  }
  LOG(INFO) << "members go on without this daemon members=" << members
            << " lease=" << options_.member_lease;
  processes_->Leave();
  if (!copier_->Flush(options_.flush_timeout)) {
    LOG(WARNING) << "not all checkpoints could be copied";
  }
}

}  // namespace comera::worker
