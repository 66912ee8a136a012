#ifndef COMERA_TESTS_BENCH_SERVICE_WATCH_LOAD_H_
#define COMERA_TESTS_BENCH_SERVICE_WATCH_LOAD_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/bench/service/latencies.h"
#include "tests/bench/service/load_options.h"

namespace comera::bench {

// Keeps WatchJob streams open and counts their events. Thread-safe. The
// destructor cancels the streams and waits until gRPC is done with them.
class WatchLoad {
 public:
  // `due` returns when the report of a step was due.
  WatchLoad(const Channels& channels, std::vector<std::string> jobs,
            int watchers, std::function<absl::Time(int64_t step)> due);
  ~WatchLoad();

  // The streams that have had their first message, and those that have ended.
  int open() const;
  int ended() const;
  absl::Status first_error() const;

  // While on, the event of every step is counted.
  void SetMeasuring(bool on);
  const Latencies& latencies() const;
  int64_t events() const;
  int64_t dropped() const;

 private:
  class Stream;
  struct Shared;

  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<Stream>> streams_;
};

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SERVICE_WATCH_LOAD_H_
