// Tests the counter-based generator.
#include "worker/trainer/data/random/counter_random.h"

#include <set>

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers of Random123's kat_vectors.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                       {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomWordsTest, EveryArgumentMatters) {
  const auto stream = RandomStream::kTrainMask;
  const std::set<Words> distinct = {
      RandomWords(1, stream, 2, 3),
      RandomWords(2, stream, 2, 3),
      RandomWords(1, RandomStream::kValidationMask, 2, 3),
      RandomWords(1, stream, 3, 3),
      RandomWords(1, stream, 2, 4),
      RandomWords(1, stream, uint64_t{2} << 32, 3),
      RandomWords(1, stream, 2, uint64_t{3} << 32)};
  EXPECT_EQ(distinct.size(), 7u);
  EXPECT_EQ(RandomWords(1, stream, 2, 3), RandomWords(1, stream, 2, 3));
}

TEST(RandomWordsTest, Uniform) {
  double sum = 0;
  std::array<int, 10> buckets = {};
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const uint32_t word = RandomWords(7, RandomStream::kTrainMask, 1, i)[i % 4];
    const float x = UnitFloat(word);
    ASSERT_GE(x, 0.0f);
    ASSERT_LT(x, 1.0f);
    sum += x;
    ++buckets[BelowN(word, 10)];
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
  for (const int count : buckets) EXPECT_NEAR(count, kDraws / 10, 200);
}

TEST(BelowNTest, Bounds) {
  EXPECT_EQ(BelowN(0, 5), 0u);
  EXPECT_EQ(BelowN(0xffffffff, 5), 4u);
  EXPECT_EQ(BelowN(0xffffffff, 1), 0u);
  EXPECT_LT(UnitFloat(0xffffffff), 1.0f);
}

}  // namespace
}  // namespace comera::trainer
