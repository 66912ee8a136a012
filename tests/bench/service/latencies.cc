// Collects durations and computes percentiles.

#include "tests/bench/service/latencies.h"

#include <algorithm>
#include <cmath>

namespace comera::bench {

void Latencies::Add(absl::Duration duration) {
  const float value = static_cast<float>(absl::ToDoubleMilliseconds(duration));
  std::lock_guard<std::mutex> lock(mutex_);
  milliseconds_.push_back(value);
}

size_t Latencies::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return milliseconds_.size();
}

double Latencies::Milliseconds(double share) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (milliseconds_.empty()) return 0;
  std::vector<float> sorted = milliseconds_;
  const size_t rank = static_cast<size_t>(
      std::ceil(share * static_cast<double>(sorted.size())));
  const size_t index = std::min(sorted.size(), std::max<size_t>(1, rank)) - 1;
  std::nth_element(sorted.begin(), sorted.begin() + index, sorted.end());
  return sorted[index];
}

}  // namespace comera::bench
