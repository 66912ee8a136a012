#ifndef COMERA_TESTS_BENCH_SERVICE_HTTP_POLL_LOAD_H_
#define COMERA_TESTS_BENCH_SERVICE_HTTP_POLL_LOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/bench/service/latencies.h"

namespace comera::bench {

struct HttpPollOptions {
  // The server's address, as host:port.
  std::string address;
  // The paths to poll, distributed over the pollers.
  std::vector<std::string> paths;
  int pollers = 1000;
  absl::Duration duration = absl::Seconds(20);
  // Whether to send the last ETag as If-None-Match.
  bool conditional = true;
};

struct HttpPollFigures {
  // The times from the moment a poll was due, so that a late one counts its
  // delay.
  Latencies latencies;
  int64_t answers = 0;
  int64_t not_modified = 0;
  int64_t body_bytes = 0;
};

// Plays browsers that poll: each has a connection of its own and asks once a
// second for its path, evenly spread over the second. Unavailable: a connection
// broke, or an answer was an error.
absl::Status PollOverHttp(const HttpPollOptions& options,
                          HttpPollFigures* figures);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SERVICE_HTTP_POLL_LOAD_H_
