// Limits how often and how much each user may call, by token buckets.
#include "server/auth/rate_limit.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {

absl::Duration TokenBucket::Take(absl::Time now) {
  if (last_ != absl::InfinitePast() && now > last_) {
    tokens_ = std::min(
        burst_, tokens_ + absl::ToDoubleSeconds(now - last_) * per_second_);
  }
  // A clock that goes back neither gives nor takes.
  last_ = now;
  if (tokens_ >= 1) {
    tokens_ -= 1;
    return absl::ZeroDuration();
  }
  return absl::Seconds((1 - tokens_) / per_second_);
}

UserLimits::User& UserLimits::Find(const std::string& user) {
  return users_.try_emplace(user, options_).first->second;
}

absl::Status UserLimits::ChargeRequest(const std::string& user) {
  const absl::Time now = clock_->Now();
  absl::Duration wait;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    wait = Find(user).requests.Take(now);
    if (wait > absl::ZeroDuration()) ++refusals_.requests;
  }
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  return TryAgainAfter(wait,
                       absl::StrCat("more than ", options_.requests_per_second,
                                    " calls per second by ", user));
}

absl::Status UserLimits::ChargeSubmission(const std::string& user) {
  const absl::Time now = clock_->Now();
  absl::Duration wait;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    wait = Find(user).submissions.Take(now);
    if (wait > absl::ZeroDuration()) ++refusals_.submissions;
  }
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  return TryAgainAfter(
      wait, absl::StrCat("more than ", options_.submissions_per_second,
                         " new jobs per second by ", user));
}

absl::Status UserLimits::OpenStream(const std::string& user) {
  std::lock_guard<std::mutex> lock(mutex_);
  User& one = Find(user);
  if (one.streams >= options_.max_streams) {
    ++refusals_.streams;
    return TryAgainAfter(absl::Seconds(5),
                         absl::StrCat(user, " has ", one.streams,
                                      " streams open, which is the limit for a "
                                      "user (--user_streams of the server)"));
  }
  ++one.streams;
  return absl::OkStatus();
}

absl::Status UserLimits::OpenUpload(const std::string& user) {
  std::lock_guard<std::mutex> lock(mutex_);
  User& one = Find(user);
  if (one.uploads >= options_.max_uploads) {
    ++refusals_.uploads;
    return TryAgainAfter(absl::Seconds(5),
                         absl::StrCat(user, " has ", one.uploads,
                                      " uploads open, which is the limit for a "
                                      "user (--user_uploads of the server)"));
  }
  ++one.uploads;
  return absl::OkStatus();
}

void UserLimits::CloseUpload(const std::string& user) {
  std::lock_guard<std::mutex> lock(mutex_);
  --Find(user).uploads;
}

absl::Status UserLimits::OpenDownload(const std::string& user) {
  std::lock_guard<std::mutex> lock(mutex_);
  User& one = Find(user);
  if (one.downloads >= options_.max_downloads) {
    ++refusals_.downloads;
    return TryAgainAfter(
        absl::Seconds(5),
        absl::StrCat(user, " has ", one.downloads,
                     " downloads open, which is the limit for a user "
                     "(--user_downloads of the server)"));
  }
  ++one.downloads;
  return absl::OkStatus();
}

void UserLimits::CloseDownload(const std::string& user) {
  std::lock_guard<std::mutex> lock(mutex_);
  --Find(user).downloads;
}

absl::Status UserLimits::OpenWorkerDownload(const std::string& worker) {
  std::lock_guard<std::mutex> lock(mutex_);
  int64_t& downloads = worker_downloads_[worker];
  if (downloads >= options_.max_worker_downloads) {
    ++refusals_.downloads;
    return TryAgainAfter(
        absl::Seconds(5),
        absl::StrCat("worker ", worker, " has ", downloads,
                     " downloads open, which is the limit for a worker "
                     "(--worker_downloads of the server)"));
  }
  ++downloads;
  return absl::OkStatus();
}

void UserLimits::CloseWorkerDownload(const std::string& worker) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = worker_downloads_.find(worker);
  if (found != worker_downloads_.end() && --found->second <= 0) {
    worker_downloads_.erase(found);
  }
}

absl::Status UserLimits::OpenDatasetChange(const std::string& user,
                                           int64_t bytes) {
  if (bytes > options_.max_dataset_request_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the request has ", bytes, " bytes, of at most ",
                     options_.max_dataset_request_bytes));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  User& one = Find(user);
  if (one.dataset_changes >= options_.max_dataset_changes ||
      one.dataset_change_bytes + bytes > options_.max_dataset_change_bytes) {
    ++refusals_.dataset_changes;
    return TryAgainAfter(
        absl::Seconds(1),
        absl::StrCat(user, " has ", one.dataset_changes,
                     " changes of datasets waiting, with ",
                     one.dataset_change_bytes,
                     " bytes; the limits for a user "
                     "are ",
                     options_.max_dataset_changes, " and ",
                     options_.max_dataset_change_bytes, " bytes"));
  }
  ++one.dataset_changes;
  one.dataset_change_bytes += bytes;
  return absl::OkStatus();
}

void UserLimits::CloseDatasetChange(const std::string& user, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  User& one = Find(user);
  --one.dataset_changes;
  one.dataset_change_bytes -= bytes;
}

UserQuota UserLimits::DefaultQuota() {
  UserQuota quota;
  quota.queued_jobs = 20000;
  quota.queue_share = 0.2;
  quota.jobs = 50000;
  quota.job_bytes = int64_t{1} << 30;
  quota.sweeps = 1000;
  quota.active_sweeps = 100;
  quota.datasets = 1000;
  quota.dataset_bytes = int64_t{1} << 39;
  quota.model_bytes = int64_t{1} << 39;
  return quota;
}

UserLimits::Refusals UserLimits::refusals() {
  std::lock_guard<std::mutex> lock(mutex_);
  return refusals_;
}

void UserLimits::CloseStream(const std::string& user) {
  std::lock_guard<std::mutex> lock(mutex_);
  --Find(user).streams;
}

}  // namespace comera::server
