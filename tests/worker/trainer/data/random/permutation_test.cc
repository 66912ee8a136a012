// Tests permutations computed element by element.
#include "worker/trainer/data/random/permutation.h"

#include <vector>

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

std::vector<uint64_t> Order(uint64_t seed, uint64_t epoch, uint64_t n) {
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < n; ++i) {
    order.push_back(
        PermutedIndex(seed, RandomStream::kEpochOrder, epoch, n, i));
  }
  return order;
}

TEST(PermutationTest, EverySampleOnce) {
  for (const uint64_t n : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097}) {
    std::vector<bool> seen(n, false);
    for (const uint64_t index : Order(3, 5, n)) {
      ASSERT_LT(index, n);
      EXPECT_FALSE(seen[index]) << "n " << n << ", index " << index;
      seen[index] = true;
    }
  }
}

TEST(PermutationTest, DependsOnSeedAndEpoch) {
  EXPECT_EQ(Order(1, 0, 1000), Order(1, 0, 1000));
  EXPECT_NE(Order(1, 0, 1000), Order(2, 0, 1000));
  EXPECT_NE(Order(1, 0, 1000), Order(1, 1, 1000));
}

TEST(PermutationTest, Shuffles) {
  // A random permutation leaves one element on average in its place, and
  // neighbours move n / 3 apart on average.
  constexpr uint64_t kN = 5000;
  int stayed = 0;
  double distance = 0;
  const std::vector<uint64_t> order = Order(11, 2, kN);
  for (uint64_t i = 0; i + 1 < kN; ++i) {
    if (order[i] == i) ++stayed;
    distance += std::abs(static_cast<double>(order[i]) -
                         static_cast<double>(order[i + 1]));
  }
  EXPECT_LT(stayed, 10);
  EXPECT_NEAR(distance / kN, kN / 3.0, kN * 0.02);
}

TEST(PermutationTest, LargeDomain) {
  const uint64_t n = uint64_t{1} << 40;
  EXPECT_LT(PermutedIndex(1, RandomStream::kEpochOrder, 9, n, n - 1), n);
}

}  // namespace
}  // namespace comera::trainer
