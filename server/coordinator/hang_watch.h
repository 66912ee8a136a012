#ifndef COMERA_SERVER_COORDINATOR_HANG_WATCH_H_
#define COMERA_SERVER_COORDINATOR_HANG_WATCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

// Finds the rank for which a gang waits in vain: watches progress, not life.
//
// Workers tell of each rank how far it is, and for how long nothing of that has
// changed; both by the worker's own monotonic clock, so that neither a silent
// network nor a clock that jumps looks like a hang. A rank hangs if its process
// gives no sign of life (it is stopped), or if all ranks stand still: then it
// is the one that has begun the fewest collectives, for which the others wait.
//
// One per attempt; in memory only, for workers repeat what they told. Not
// thread-safe.
class HangWatch {
 public:
  struct Options {
    // Ranks that stand still for longer than this, or than `steps` steps as
    // observed, hang. With the time that a report takes: 30 s.
    absl::Duration stall_after = absl::Seconds(28);
    double steps = 5;
    // The same before the first step, and while a rank says that it does
    // something else (reads data, validates, exports), of which nothing is
    // known in advance.
    absl::Duration busy_stall_after = absl::Minutes(5);
  };

  struct Hang {
    // -1: all ranks are in the same collective.
    int32_t rank = -1;
    // For people: rank, collective and step, since when.
    std::string message;
  };

  // A new attempt.
  void Reset() { *this = HangWatch(); }

  // What a worker tells of its rank.
  void Observe(const v1::MemberStatus& status, absl::Time now);

  // The rank for which `attempt` waits, if it hangs.
  std::optional<Hang> Find(const Options& options,
                           const AttemptRecord& attempt) const;

  // Longest step seen lately; 0: none yet.
  absl::Duration step_time() const { return step_time_; }

 private:
  struct Seen {
    bool told = false;
    v1::MemberStatus status;  // without texts but `activity`
    absl::Duration stalled;
    absl::Duration silent;
  };

  absl::Duration Limit(const Options& options, const Seen& seen) const;

  std::vector<Seen> ranks_;
  int64_t last_step_ = -1;
  absl::Time last_step_time_;
  absl::Duration step_time_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_HANG_WATCH_H_
