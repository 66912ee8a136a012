// The order found by counting is that of a stable sort.
#include "kernels/contraction/stable_order.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

std::vector<int32_t> Expected(const std::vector<int32_t>& keys) {
  std::vector<int32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return keys[a] < keys[b]; });
  return order;
}

// Limits around the powers of two at which a digit or a pass is added.
TEST(StableOrderTest, IsThatOfAStableSort) {
  StableOrder sorter(3000);
  std::mt19937 random(1);
  for (int64_t limit :
       {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{2048}, int64_t{2049},
        int64_t{30522}, int64_t{1} << 22, (int64_t{1} << 22) + 1,
        int64_t{10131227}, int64_t{1} << 31}) {
    for (size_t count : {0, 1, 2, 3000, 777}) {
      std::vector<int32_t> keys(count);
      for (int32_t& key : keys) {
        key = static_cast<int32_t>(random() % static_cast<uint64_t>(limit));
      }
      if (count > 1) keys.back() = static_cast<int32_t>(limit - 1);
      const auto order = sorter.Sort(keys, limit);
      EXPECT_EQ(std::vector<int32_t>(order.begin(), order.end()),
                Expected(keys))
          << limit << " " << count;
    }
  }
}

}  // namespace
}  // namespace comera::kernels
