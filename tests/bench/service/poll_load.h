#ifndef COMERA_TESTS_BENCH_SERVICE_POLL_LOAD_H_
#define COMERA_TESTS_BENCH_SERVICE_POLL_LOAD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/bench/service/latencies.h"
#include "tests/bench/service/load_options.h"

namespace comera::bench {

struct PollFigures {
  // The times from the moment a poll was due, so that a late one counts its
  // delay.
  Latencies latencies;
  // How late the client itself was in sending.
  Latencies send_delay;
  int failed = 0;
  absl::Status first_error;
};

// Plays `pollers` clients, each asking once a second for the state of one of
// `jobs`, evenly spread over the second, for `duration`. Returns when the last
// reply has come.
void PollJobs(const Channels& channels, const std::vector<std::string>& jobs,
              int pollers, absl::Duration duration, PollFigures* figures);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SERVICE_POLL_LOAD_H_
