#ifndef COMERA_COMMON_CLOCK_H_
#define COMERA_COMMON_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace comera {

// Source of the current time, so that tests own time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;

  // The system's clock; lives for ever.
  static Clock* Real();
};

class RealClock : public Clock {
 public:
  absl::Time Now() override { return absl::Now(); }
};

inline Clock* Clock::Real() {
  static RealClock* clock = new RealClock;
  return clock;
}

}  // namespace comera

#endif  // COMERA_COMMON_CLOCK_H_
