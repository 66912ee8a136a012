#ifndef COMERA_COMMON_SLEWED_CLOCK_H_
#define COMERA_COMMON_SLEWED_CLOCK_H_

#include <functional>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace comera {

// Time as a service lives it: for deciding how long something has lasted.
//
// It starts with the wall clock and runs with the monotonic one. Where the wall
// clock jumps, it does not: it runs at most a tenth faster or slower until both
// agree again. And time in which nobody asked, because this process was stopped
// or starved, counts no more than `longest_gap`: what others sent meanwhile was
// not looked at, so nobody may be called silent for it. Never goes back.
// Thread-safe.
class SlewedClock : public Clock {
 public:
  struct Options {
    // Longer than the pauses between two looks in regular operation.
    absl::Duration longest_gap = absl::Seconds(5);
    double slew = 0.1;
  };

  // `wall` must outlive this. `elapsed` is monotonic.
  SlewedClock(const Options& options, Clock* wall,
              std::function<absl::Duration()> elapsed = SteadyElapsed);

  absl::Time Now() override;

  // CLOCK_MONOTONIC.
  static absl::Duration SteadyElapsed();

 private:
  const Options options_;
  Clock* const wall_;
  const std::function<absl::Duration()> elapsed_;
  std::mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
  absl::Duration last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera

#endif  // COMERA_COMMON_SLEWED_CLOCK_H_
