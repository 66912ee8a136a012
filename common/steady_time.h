#ifndef COMERA_COMMON_STEADY_TIME_H_
#define COMERA_COMMON_STEADY_TIME_H_

#include <time.h>

#include "absl/time/time.h"

namespace comera {

// The time for deadlines and durations within this process. Only differences
// mean anything; changes of the wall clock do not affect it.
inline absl::Time SteadyNow() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

}  // namespace comera

#endif  // COMERA_COMMON_STEADY_TIME_H_
