#ifndef COMERA_TESTS_BENCH_SERVICE_WORKER_CROWD_H_
#define COMERA_TESTS_BENCH_SERVICE_WORKER_CROWD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/bench/service/latencies.h"

namespace comera::bench {

// Plays many workers without processes, each with a connection of its own. They
// accept what is assigned to them and tell all they have in every call, as
// workers do that have just found their coordinator again: their members, and a
// step of each job whose member 0 they run. Not thread-safe.
class WorkerCrowd {
 public:
  WorkerCrowd(const std::string& address, int workers, int slots);
  ~WorkerCrowd();

  // All of them call at once, as soon as they are connected, and get an answer
  // each. `latencies`, if not null, gets the times from the call of this method
  // to each answer. A call whose connection ends is made again; the first other
  // error ends it. DeadlineExceeded: 60 s are over.
  absl::Status Round(Latencies* latencies);

  // The number of members assigned to them.
  int members() const;

 private:
  struct Worker;
  std::vector<std::unique_ptr<Worker>> workers_;
  const int slots_;
};

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SERVICE_WORKER_CROWD_H_
