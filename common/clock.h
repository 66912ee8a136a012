#ifndef COMERA_COMMON_CLOCK_H_
#define COMERA_COMMON_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace comera {

// A source of the current time; tests replace it to control time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;

  // The system's clock, which is never destroyed.
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
