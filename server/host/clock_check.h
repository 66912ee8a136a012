// Whether the clock may be believed where old things are removed.
//
// A clock that starts a month ahead would make everything look expired. So the
// servers of a store note the time in it, now and then; a clock that leads the
// newest note by more than a day is not believed until it agrees again or an
// operator confirms it.
#ifndef COMERA_SERVER_HOST_CLOCK_CHECK_H_
#define COMERA_SERVER_HOST_CLOCK_CHECK_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/job_store.h"

namespace comera::server {

// How far a clock may lead the newest time in the store.
inline constexpr absl::Duration kMaxClockLead = absl::Hours(24);

// The newest time that a server noted in the store. Stores of earlier versions
// have none: then the newest time of a job; InfinitePast without jobs. Errors
// of StoreReader.
absl::StatusOr<absl::Time> NewestStoredTime(
    StoreReader* store, const std::vector<JobRecord>& records);

// Whether things may expire by a clock that says `now`: it does not lead
// `newest` too far (InfinitePast: nothing is known), or an operator has
// confirmed that day. `confirmed_day` is its midnight, UTC; InfinitePast: none.
bool MayExpireBy(absl::Time now, absl::Time newest, absl::Time confirmed_day);

// How far to set a clock back before anything expires by it. Not thread-safe.
//
// A clock that is not believed counts as the newest time in the store and what
// has passed since the start by the monotonic clock: at least as much time has
// passed in truth.
class ClockTrust {
 public:
  // A clock that is believed.
  ClockTrust() = default;
  // The first three are those of MayExpireBy. `steady`: the time of a monotonic clock.
  ClockTrust(absl::Time now, absl::Time newest, absl::Time confirmed_day,
             absl::Time steady);

  // Zero: the clock is believed, from then on. It is once it leads by no more
  // than kMaxClockLead.
  absl::Duration Lead(absl::Time now, absl::Time steady);

 private:
  bool believed_ = true;
  // The newest time in the store, and when it was read by the monotonic clock.
  absl::Time newest_;
  absl::Time start_;
};

// The note of this time.
Document TimeNote(absl::Time now);

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_CLOCK_CHECK_H_
