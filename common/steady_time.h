#ifndef COMERA_COMMON_STEADY_TIME_H_
#define COMERA_COMMON_STEADY_TIME_H_

#include <time.h>

#include "absl/time/time.h"

namespace comera {

// For deadlines and durations within this process: only differences mean
// anything, and no change of the wall clock moves it.
inline absl::Time SteadyNow() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

}  // namespace comera

#endif  // COMERA_COMMON_STEADY_TIME_H_
