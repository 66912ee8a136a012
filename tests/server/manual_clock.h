#ifndef COMERA_TESTS_SERVER_MANUAL_CLOCK_H_
#define COMERA_TESTS_SERVER_MANUAL_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "common/clock.h"

namespace comera::server {

// A clock that stands still until it is told otherwise. Thread-safe.
class ManualClock : public Clock {
 public:
  absl::Time Now() override { return absl::FromUnixMicros(micros_.load()); }
  void Advance(absl::Duration duration) {
    micros_ += absl::ToInt64Microseconds(duration);
  }

 private:
  std::atomic<int64_t> micros_{1000000000000000};
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_MANUAL_CLOCK_H_
