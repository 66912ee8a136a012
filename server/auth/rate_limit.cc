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
                                      " streams open, which is the limit"));
  }
  ++one.streams;
  return absl::OkStatus();
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
