#ifndef COMERA_SERVER_SCHEDULER_SCHEDULER_H_
#define COMERA_SERVER_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/scheduler/cluster_snapshot.h"
#include "server/scheduler/decision.h"
#include "server/scheduler/wait_reason.h"

namespace comera::server {

// An explanation of where one queued job stands.
struct Explanation {
  // The number of processes that it would start with now; 0: it waits.
  int32_t processes_now = 0;
  // Its position among the queued jobs for the same device, from 1.
  int32_t position = 1;
  // The first of the jobs ahead, in serving order, and why each is ahead.
  struct Ahead {
    int32_t job = 0;
    std::string why;
  };
  std::vector<Ahead> ahead;
  WaitReason reason;
  // A guess, if one is possible: the jobs ahead start in order, and each takes
  // as long as is expected of it.
  std::optional<absl::Time> expected_start;
  struct Smaller {
    int32_t processes = 0;
    bool now = false;
    std::optional<absl::Time> expected_start;
  };
  std::vector<Smaller> smaller;
  // Slots of the device that may take members, and those that are free.
  int32_t fit_slots = 0;
  int32_t free_slots = 0;
};

// Decides which queued jobs start now and where, and which running ones make
// room for them. Stateless; thread-safe; equal snapshots give equal decisions.
//
// Words: a *pool* is all slots of one device. A job is *owed* its slots while
// its queue stays within its guarantee with them. The *head* of a pool is the
// first job in serving order that cannot start; slots are *reserved* for it at
// the time when the running jobs are expected to have left enough.
//
// Serving order: jobs that are owed come first; then priority counts; then jobs
// that lost patience come, by acceptance, as long as their queue has less than
// its share; then the queue's processes over its weight count, then the user's
// processes in the queue, then acceptance.
//
// A job gets slots for all its processes or for none (an elastic one: for the
// largest of its sizes that fits). Gangs fill the last attempt's workers, else
// one machine, else one rack, else as few racks and machines as possible.
// Behind a head, a job starts only if it is expected to end before the
// reservation, or leaves the reserved slots alone. A job larger than its pool,
// or than its queue's limit, holds nobody back.
//
// Preemption: a job that does not fit may take the room that is free or coming
// free together with that of running jobs which had their slots for
// min_run_time: by shrinking elastic jobs of at most its priority, then by
// stopping jobs of lower priority, and, if it is owed, jobs of queues above
// their guarantee. Jobs within their queue's guarantee are safe from jobs that
// are not owed, unless these take their place in it. Behind a head, a job does
// so only if the head could not start within hold_limit anyway.
// Victims: lowest priority first, then the youngest; as few as do.
class Scheduler {
 public:
  static Decision Decide(const ClusterSnapshot& snapshot);
  // Says also what the job would get with each of `sizes` as its number of
  // processes.
  static Explanation Explain(const ClusterSnapshot& snapshot, int32_t job,
                             const std::vector<int32_t>& sizes);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_SCHEDULER_H_
