// Computes when a waiting job is expected to fit.
#include "server/scheduler/reservation.h"

#include <algorithm>

namespace comera::server {

Reservation Reservation::Make(int32_t need, int32_t room, absl::Time earliest,
                              std::vector<Release> releases) {
  std::sort(releases.begin(), releases.end(),
            [](const Release& a, const Release& b) { return a.time < b.time; });
  Reservation reservation;
  size_t next = 0;
  absl::Time time = earliest;
  while (room < need && next < releases.size()) {
    room += releases[next].processes;
    time = std::max(time, releases[next].time);
    ++next;
  }
  if (room < need) return reservation;
  // Whatever else is released by then is left over.
  for (; next < releases.size() && releases[next].time <= time; ++next) {
    room += releases[next].processes;
  }
  reservation.time = time;
  reservation.extra = room - need;
  return reservation;
}

}  // namespace comera::server
