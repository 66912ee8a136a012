// Sorts indices by counting the digits of their values.
#include "kernels/contraction/stable_order.h"

#include <algorithm>
#include <utility>

namespace comera::kernels {

StableOrder::StableOrder(int64_t max_count)
    : pairs_(max_count),
      other_(max_count),
      order_(max_count),
      counts_(int64_t{1} << kDigitBits) {}

absl::Span<const int32_t> StableOrder::Sort(absl::Span<const int32_t> keys,
                                            int64_t limit) {
  int bits = 0;
  while (bits < 31 && int64_t{1} << bits < limit) ++bits;
  const int passes = (bits + kDigitBits - 1) / kDigitBits;
  const int width = passes == 0 ? 0 : (bits + passes - 1) / passes;
  const int32_t mask = (int32_t{1} << width) - 1;
  const size_t count = keys.size();
  for (size_t i = 0; i < count; ++i) {
    pairs_[i] = {keys[i], static_cast<int32_t>(i)};
  }
  for (int pass = 0; pass < passes; ++pass) {
    const int shift = pass * width;
    std::fill_n(counts_.begin(), mask + 1, 0);
    for (size_t i = 0; i < count; ++i) ++counts_[pairs_[i].key >> shift & mask];
    int32_t before = 0;
    for (int32_t digit = 0; digit <= mask; ++digit) {
      before += std::exchange(counts_[digit], before);
    }
    for (size_t i = 0; i < count; ++i) {
      other_[counts_[pairs_[i].key >> shift & mask]++] = pairs_[i];
    }
    pairs_.swap(other_);
  }
  for (size_t i = 0; i < count; ++i) order_[i] = pairs_[i].position;
  return {order_.data(), count};
}

}  // namespace comera::kernels
