#ifndef COMERA_SERVER_SCHEDULER_RESERVATION_H_
#define COMERA_SERVER_SCHEDULER_RESERVATION_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace comera::server {

// A number of processes that are expected to end at some time.
struct Release {
  absl::Time time;
  int32_t processes = 0;
};

// Slots kept for a job that cannot start yet, as in EASY backfill: from `time`
// on it is expected to fit. Others may start meanwhile if they end before, or
// if they use no more than `extra`, which is left over even then.
struct Reservation {
  absl::Time time = absl::InfiniteFuture();
  int32_t extra = 0;

  // Reserves `need` slots where `room` are free now, not before `earliest`. If
  // the releases do not suffice, the time is InfiniteFuture.
  static Reservation Make(int32_t need, int32_t room, absl::Time earliest,
                          std::vector<Release> releases);

  // Whether a job of this size that is expected to end then may start.
  bool Allows(int32_t processes, absl::Time end) const {
    return end <= time || processes <= extra;
  }
  // Counts with the start of such a job.
  void CountStart(int32_t processes, absl::Time end) {
    if (end > time) extra -= processes;
  }
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_RESERVATION_H_
