// Makes a trace of jobs with the heavy tails of real clusters.
#ifndef COMERA_TESTS_BENCH_SCHEDULE_TRACE_H_
#define COMERA_TESTS_BENCH_SCHEDULE_TRACE_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace comera::bench {

struct TraceOptions {
  int64_t jobs = 100000;
  // The slots of the cluster, and the share of them that jobs ask for on
  // average.
  int64_t slots = 8000;
  double load = 1.05;
  uint64_t seed = 1;
  int queues = 8;
  int users = 64;
};

struct TraceJob {
  absl::Time arrival;
  int32_t processes = 1;
  // For elastic jobs, all numbers of members that they can run with,
  // descending.
  std::vector<int32_t> sizes;
  int32_t priority = 0;
  int32_t queue = 0;
  int32_t user = 0;
  // How long it runs with `processes` members.
  absl::Duration run_time;
  // The time limit that the scheduler knows; infinite if it knows none.
  absl::Duration time_limit = absl::InfiniteDuration();
};

// Returns the jobs by arrival. Equal options give equal traces. Run times are
// log-normal (median 12 minutes, mean about an hour, at most 3 days), widths
// are powers of two up to 256 with half of the jobs on one slot, arrivals are a
// Poisson process with a daily wave; most jobs belong to few users.
std::vector<TraceJob> MakeTrace(const TraceOptions& options);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SCHEDULE_TRACE_H_
