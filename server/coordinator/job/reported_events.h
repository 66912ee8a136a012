#ifndef COMERA_SERVER_COORDINATOR_JOB_REPORTED_EVENTS_H_
#define COMERA_SERVER_COORDINATOR_JOB_REPORTED_EVENTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"

namespace comera::server {

// Bounds the events that member 0 of a job adds to the job's history, since its
// process may be a program of the user's own, or under somebody's control.
// Thinning deletes samples only, so that each attempt has one event that says
// how it began and one with its result. Events have a size that stored samples
// can have by the thousand, and together a rate that a disk can bear.
//
// What is bounded is in memory: a restart of the coordinator begins anew. Not
// thread-safe.
class ReportedEvents {
 public:
  static constexpr size_t kMaxEventBytes = size_t{64} << 10;
  // The results of large jobs have long Pareto fronts.
  static constexpr size_t kMaxResultBytes = size_t{1} << 20;
  static constexpr double kBurstBytes = 16 << 20;
  static constexpr double kBytesPerSecond = 256 << 10;

  // Whether the event, reported by an attempt, may become one of the job's.
  // What is too large loses its details first, if it is one of a kind.
  bool Admit(int64_t attempt, absl::Time now, v1::JobEvent* event);

 private:
  int64_t attempt_ = 0;
  bool has_run_info_ = false;
  bool has_result_ = false;
  double bytes_left_ = kBurstBytes;
  absl::Time refilled_ = absl::InfinitePast();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_REPORTED_EVENTS_H_
