#ifndef COMERA_SERVER_SCHEDULER_RESERVATION_H_
#define COMERA_SERVER_SCHEDULER_RESERVATION_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace comera::server {

// Ranks that come free at some time.
struct Release {
  absl::Time time;
  int32_t ranks = 0;
};

// Room kept for a job that cannot start yet (as in EASY backfill): from `time`
// on it is expected to fit. Others may start meanwhile if they end before, or
// if they use no more than `extra`, which is left over even then.
struct Reservation {
  absl::Time time = absl::InfiniteFuture();
  int32_t extra = 0;

  // For `need` ranks where `room` are free now, not before `earliest`. Where
  // the releases do not suffice, time is InfiniteFuture.
  static Reservation Make(int32_t need, int32_t room, absl::Time earliest,
                          std::vector<Release> releases);

  // Whether a job may start that has `ranks` and is expected to end then.
  bool Allows(int32_t ranks, absl::Time end) const {
    return end <= time || ranks <= extra;
  }
  // It starts.
  void Take(int32_t ranks, absl::Time end) {
    if (end > time) extra -= ranks;
  }
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_RESERVATION_H_
