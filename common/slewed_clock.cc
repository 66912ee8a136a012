// Advances the clock by the monotonic time and lets it approach the wall clock.

#include "common/slewed_clock.h"

#include <time.h>

#include <algorithm>
#include <utility>

namespace comera {

absl::Duration SlewedClock::SteadyElapsed() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

SlewedClock::SlewedClock(const Options& options, Clock* wall,
                         std::function<absl::Duration()> elapsed)
    : options_(options),
      wall_(wall),
      elapsed_(std::move(elapsed)),
      now_(wall->Now()),
      last_(elapsed_()) {}

absl::Time SlewedClock::Now() {
  const absl::Time wall = wall_->Now();
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::Duration elapsed = elapsed_();
  const absl::Duration lived =
      std::clamp(elapsed - last_, absl::ZeroDuration(), options_.longest_gap);
  last_ = elapsed;
  now_ += lived;
  const absl::Duration most = options_.slew * lived;
  now_ += std::clamp(wall - now_, -most, most);
  return now_;
}

}  // namespace comera
