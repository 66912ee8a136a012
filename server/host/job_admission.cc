// Compares what a user has of jobs with the user's limits.
#include "server/host/job_admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::server {
namespace {

absl::Status TooManyWait(const std::string& user, int64_t queued,
                         const std::string& limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat(queued, " jobs of ", user, " are waiting, which is the ",
                   "limit for a user (", limit, ")"));
}

}  // namespace

JobAdmission::Pending JobAdmission::PendingOf(const std::string& user) const {
  const auto found = pending_.find(user);
  return found == pending_.end() ? Pending() : found->second;
}

absl::Status JobAdmission::CheckQueued(const std::string& user,
                                       const UserQuota& quota) const {
  const int64_t queued = jobs_->UseOf(user).queued + PendingOf(user).queued;
  if (quota.queued_jobs > 0 && queued >= quota.queued_jobs) {
    return TooManyWait(user, queued, "--user_queued_jobs of the server");
  }
  if (quota.queue_share <= 0) return absl::OkStatus();
  // Everybody may have one.
  const double share =
      std::max(1.0, quota.queue_share * static_cast<double>(max_queued_));
  if (static_cast<double>(queued) + 1 <= share) return absl::OkStatus();
  return TooManyWait(
      user, queued,
      absl::StrCat("--user_queue_share of the server: ", quota.queue_share,
                   " of ", max_queued_, " jobs of all users"));
}

absl::Status JobAdmission::Admit(const std::string& user, size_t spec_bytes,
                                 const UserQuota& quota, int64_t sweep_bytes) {
  RETURN_IF_ERROR(CheckQueued(user, quota));
  const JobDirectory::Use use = jobs_->UseOf(user);
  const Pending pending = PendingOf(user);
  const auto added = static_cast<int64_t>(spec_bytes);
  constexpr char kAdvice[] =
      "delete finished ones, which else go after --keep_jobs";
  if (const int64_t jobs = use.jobs + pending.jobs;
      quota.jobs > 0 && jobs >= quota.jobs) {
    return OverQuota(user, jobs, "jobs", quota.jobs, "user_jobs", kAdvice);
  }
  if (const int64_t bytes = use.spec_bytes + pending.spec_bytes + sweep_bytes;
      quota.job_bytes > 0 && bytes + added > quota.job_bytes) {
    return OverQuota(user, bytes, "bytes of jobs' and sweeps' specifications",
                     quota.job_bytes, "user_job_bytes", kAdvice);
  }
  Pending& one = pending_[user];
  ++one.queued;
  ++one.jobs;
  one.spec_bytes += added;
  return absl::OkStatus();
}

void JobAdmission::Settle(const std::string& user, size_t spec_bytes) {
  Pending& one = pending_[user];
  --one.queued;
  --one.jobs;
  one.spec_bytes -= static_cast<int64_t>(spec_bytes);
  Forget(user);
}

absl::Status JobAdmission::AdmitQueued(const std::string& user,
                                       const UserQuota& quota) {
  RETURN_IF_ERROR(CheckQueued(user, quota));
  ++pending_[user].queued;
  return absl::OkStatus();
}

void JobAdmission::SettleQueued(const std::string& user) {
  --pending_[user].queued;
  Forget(user);
}

void JobAdmission::Forget(const std::string& user) {
  const Pending& one = pending_[user];
  if (one.queued == 0 && one.jobs == 0) pending_.erase(user);
}

}  // namespace comera::server
