#ifndef COMERA_TESTS_BENCH_SERVICE_SUBMISSION_LOAD_H_
#define COMERA_TESTS_BENCH_SERVICE_SUBMISSION_LOAD_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "tests/bench/service/latencies.h"
#include "tests/bench/service/load_options.h"

namespace comera::bench {

struct SubmissionFigures {
  absl::Duration elapsed;
  Latencies latencies;
  std::vector<std::string> jobs;
};

// A job that the server accepts; its data are never read.
v1::JobSpec LoadSpec();

// Creates `count` jobs through `clients` concurrent clients: each sends its
// next submission when the reply to its last one has come. The first error ends
// it.
absl::Status SubmitJobs(const Channels& channels, const v1::JobSpec& spec,
                        int count, int clients, SubmissionFigures* figures);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SERVICE_SUBMISSION_LOAD_H_
