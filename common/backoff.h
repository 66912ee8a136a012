#ifndef COMERA_COMMON_BACKOFF_H_
#define COMERA_COMMON_BACKOFF_H_

#include <algorithm>
#include <random>

#include "absl/time/time.h"

namespace comera {

// Growing pauses between tries. Each is random, between half and the whole of a
// step that doubles up to `max`, so that many workers do not come back at once.
// Not thread-safe.
class Backoff {
 public:
  Backoff(absl::Duration min, absl::Duration max)
      : min_(min), max_(max), step_(min), random_(std::random_device()()) {}

  absl::Duration Next() {
    const absl::Duration wait =
        step_ * std::uniform_real_distribution<double>(0.5, 1)(random_);
    step_ = std::min(step_ * 2, max_);
    return wait;
  }
  void Reset() { step_ = min_; }

 private:
  const absl::Duration min_;
  const absl::Duration max_;
  absl::Duration step_;
  std::mt19937 random_;
};

}  // namespace comera

#endif  // COMERA_COMMON_BACKOFF_H_
