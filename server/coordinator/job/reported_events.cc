// Implements ReportedEvents: a token bucket of bytes, and one of a kind.
#include "server/coordinator/job/reported_events.h"

#include <algorithm>
#include <utility>

namespace comera::server {

bool ReportedEvents::Admit(int64_t attempt, absl::Time now,
                           v1::JobEvent* event) {
  if (attempt != attempt_) {
    attempt_ = attempt;
    has_run_info_ = has_result_ = false;
  }
  if (event->has_run_info()) {
    if (std::exchange(has_run_info_, true)) return false;
    if (event->ByteSizeLong() > kMaxEventBytes) {
      event->mutable_run_info()->clear_initial_errors();
    }
  }
  if (event->has_result() && std::exchange(has_result_, true)) return false;
  const size_t bytes = event->ByteSizeLong();
  if (bytes > (event->has_result() ? kMaxResultBytes : kMaxEventBytes)) {
    return false;
  }
  if (refilled_ > absl::InfinitePast() && now > refilled_) {
    const double seconds = absl::ToDoubleSeconds(now - refilled_);
    bytes_left_ =
        std::min(kBurstBytes, bytes_left_ + seconds * kBytesPerSecond);
  }
  refilled_ = now;
  // A result is told in any case.
  if (bytes_left_ < static_cast<double>(bytes) && !event->has_result()) {
    return false;
  }
  bytes_left_ -= static_cast<double>(bytes);
  return true;
}

}  // namespace comera::server
