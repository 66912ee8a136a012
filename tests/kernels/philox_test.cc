// Philox gives its published numbers, and dropout its rate.
#include "kernels/philox.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

using ::testing::ElementsAre;

// Known answers of the Random123 distribution (kat_vectors, philox4x32 with 10
// and 7 rounds).
TEST(PhiloxTest, KnownAnswers) {
  const PhiloxWords zeros = {{0, 0, 0, 0}};
  const PhiloxWords ones = {{~0u, ~0u, ~0u, ~0u}};
  const PhiloxWords pi = {{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}};
  EXPECT_THAT(Philox<10>(zeros, 0, 0).w,
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(Philox<10>(ones, ~0u, ~0u).w,
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(Philox<10>(pi, 0xa4093822u, 0x299f31d0u).w,
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
  EXPECT_THAT(Philox<7>(zeros, 0, 0).w,
              ElementsAre(0x5f6fb709u, 0x0d893f64u, 0x4f121f81u, 0x4f730a48u));
  EXPECT_THAT(Philox<7>(ones, ~0u, ~0u).w,
              ElementsAre(0x5207ddc2u, 0x45165e59u, 0x4d8ee751u, 0x8c52f662u));
  EXPECT_THAT(Philox<7>(pi, 0xa4093822u, 0x299f31d0u).w,
              ElementsAre(0x4dfccabau, 0x190a87f0u, 0xc47362bau, 0xb6b5242au));
}

TEST(PhiloxTest, EveryNumberOfTheKeyMatters) {
  const auto bits = [](uint64_t seed, uint64_t step, uint32_t site,
                       uint64_t row) {
    const DropoutRow key = MakeDropoutRow(seed, step, site, row);
    uint64_t mask = 0;
    for (int64_t c = 0; c < 64; ++c) {
      mask |= uint64_t{DropoutKeeps(key, DropoutThreshold(0.5f), c)} << c;
    }
    return mask;
  };
  const uint64_t base = bits(1, 2, 3, 4);
  EXPECT_EQ(base, bits(1, 2, 3, 4));
  const uint64_t high = uint64_t{1} << 32;
  for (uint64_t other :
       {bits(0, 2, 3, 4), bits(1 + high, 2, 3, 4), bits(1, 3, 3, 4),
        bits(1, 2 + high, 3, 4), bits(1, 2, 4, 4), bits(1, 2, 3, 5),
        bits(1, 2, 3, 4 + high)}) {
    EXPECT_NE(base, other);
  }
}

TEST(PhiloxTest, DropsAtTheRate) {
  for (float rate : {0.1f, 0.5f, 0.9f}) {
    int kept = 0;
    constexpr int kRows = 200, kColumns = 500;
    for (int i = 0; i < kRows; ++i) {
      const DropoutRow key = MakeDropoutRow(9, 8, 7, i);
      for (int j = 0; j < kColumns; ++j) {
        kept += DropoutKeeps(key, DropoutThreshold(rate), j);
      }
    }
    const double count = kRows * kColumns;
    // Five standard deviations.
    EXPECT_NEAR(kept / count, 1 - rate,
                5 * std::sqrt(rate * (1 - rate) / count));
  }
}

TEST(PhiloxTest, RatesAreMultiplesOfTwoToTheMinusSixteen) {
  EXPECT_EQ(DropoutThreshold(0.5f), 1u << 15);
  EXPECT_EQ(DropoutThreshold(0.1f), 6554u);
  EXPECT_DOUBLE_EQ(DropoutKeptScale(0.1f), 65536.0 / 58982);
  EXPECT_EQ(DropoutThreshold(1e-7f), 0u);
  EXPECT_EQ(DropoutKeptScale(1e-7f), 1);
  // Something is kept at every rate.
  EXPECT_EQ(DropoutThreshold(0.9999999f), 65535u);
}

}  // namespace
}  // namespace comera::kernels
