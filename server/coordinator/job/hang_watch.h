#ifndef COMERA_SERVER_COORDINATOR_JOB_HANG_WATCH_H_
#define COMERA_SERVER_COORDINATOR_JOB_HANG_WATCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

// Finds the member for which a gang waits in vain. It watches progress, not
// life.
//
// Workers report of each member how far it is, and for how long nothing of that
// has changed; both by the worker's own monotonic clock, so that neither a
// silent network nor a clock that jumps looks like a hang. A member hangs if
// its process gives no sign of life (it is stopped), or if all members stand
// still: then it is the one that has begun the fewest collectives, for which
// the others wait.
//
// There is one for each attempt, in memory only, for workers repeat their
// reports. Not thread-safe.
class HangWatch {
 public:
  struct Options {
    // Members that stand still for longer than this, and than `steps` steps as
    // observed, hang. With the time that a report takes that is 30 s.
    absl::Duration stall_after = absl::Seconds(28);
    double steps = 5;
    // The same before the first step, and while a member says that it does
    // something else (reads data, validates, exports), which may take any time.
    absl::Duration busy_stall_after = absl::Minutes(5);
  };

  struct Hang {
    // -1 if all members are in the same collective.
    int32_t member = -1;
    // A sentence with member, collective and step, and since when.
    std::string message;
  };

  // Forgets everything, for a new attempt.
  void Reset() { *this = HangWatch(); }

  // Applies what a worker reports of a member.
  void Observe(const v1::MemberStatus& status, absl::Time now);

  // The member for which `attempt` waits, if it hangs.
  std::optional<Hang> Find(const Options& options,
                           const AttemptRecord& attempt) const;

  // The longest step seen lately; 0 if there was none yet.
  absl::Duration step_time() const { return step_time_; }

 private:
  struct Seen {
    bool reported = false;
    // The newest status, without its texts except `activity`.
    v1::MemberStatus status;
    absl::Duration stalled;
    absl::Duration silent;
  };

  absl::Duration Limit(const Options& options, const Seen& seen) const;

  std::vector<Seen> members_;
  int64_t last_step_ = -1;
  absl::Time last_step_time_;
  absl::Duration step_time_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_HANG_WATCH_H_
