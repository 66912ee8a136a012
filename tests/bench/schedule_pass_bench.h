// Measures how long one scheduling pass over a large cluster takes.
#ifndef COMERA_TESTS_BENCH_SCHEDULE_PASS_BENCH_H_
#define COMERA_TESTS_BENCH_SCHEDULE_PASS_BENCH_H_

#include <string>
#include <vector>

namespace comera::bench {

struct PassOptions {
  int workers = 1000;
  int gpus_per_worker = 8;
  int queued = 10000;
  int repeats = 20;
};

struct PassTime {
  std::string name;
  // The processor time of each pass.
  std::vector<double> ms;
};

// Measures Coordinator::Schedule as a whole (snapshot, decision, placements and
// reasons): on full workers ("steady"), on as many jobs of all widths; for the
// first passes on an empty cluster ("filling"); and with jobs that may be
// preempted ("preempting").
std::vector<PassTime> MeasurePasses(const PassOptions& options);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SCHEDULE_PASS_BENCH_H_
