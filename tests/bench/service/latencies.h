#ifndef COMERA_TESTS_BENCH_SERVICE_LATENCIES_H_
#define COMERA_TESTS_BENCH_SERVICE_LATENCIES_H_

#include <cstddef>
#include <mutex>
#include <vector>

#include "absl/time/time.h"

namespace comera::bench {

// Collects durations; thread-safe.
class Latencies {
 public:
  void Add(absl::Duration duration);
  size_t size() const;
  // The nearest-rank percentile in milliseconds, with `share` in [0, 1]; 0
  // without samples.
  double Milliseconds(double share) const;

 private:
  mutable std::mutex mutex_;
  std::vector<float> milliseconds_;  // guarded by mutex_
};

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SERVICE_LATENCIES_H_
