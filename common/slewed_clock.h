#ifndef COMERA_COMMON_SLEWED_CLOCK_H_
#define COMERA_COMMON_SLEWED_CLOCK_H_

#include <functional>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace comera {

// A clock for deciding how long something has lasted.
//
// It starts at the wall clock's time and follows the monotonic clock. When the
// wall clock jumps, it does not jump but runs at most a tenth faster or slower
// until both agree again. Time in which nobody called Now(), because this
// process was stopped or starved, counts no more than `longest_gap`: messages
// that arrived meanwhile were not read, so their senders must not count as
// silent. It never goes back. Thread-safe.
class SlewedClock : public Clock {
 public:
  struct Options {
    // Must exceed the pauses between two calls of Now() in regular operation.
    absl::Duration longest_gap = absl::Seconds(5);
    double slew = 0.1;
  };

  // `wall` must outlive this. `elapsed` is monotonic.
  SlewedClock(const Options& options, Clock* wall,
              std::function<absl::Duration()> elapsed = SteadyElapsed);

  absl::Time Now() override;

  // The time of CLOCK_MONOTONIC.
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
