// Tests rounding to the numbers of GGUF files.
#include "worker/trainer/export/gguf_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The value of a finite float16, by its definition.
double Value(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const double fraction = (bits & 0x3ff) / 1024.0;
  const double value = exponent == 0 ? std::ldexp(fraction, -14)
                                     : std::ldexp(1 + fraction, exponent - 15);
  return bits & 0x8000 ? -value : value;
}

TEST(GgufNumbersTest, EveryFloat16IsItself) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    ASSERT_EQ(Float16Bits(static_cast<float>(Value(half))), half);
    ASSERT_EQ(Float16Bits(static_cast<float>(-Value(half))), half | 0x8000);
  }
}

TEST(GgufNumbersTest, BetweenTwoTheNearestOrTheEvenOne) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<uint16_t>(bits);
    const auto high = static_cast<uint16_t>(bits + 1);
    const auto middle = static_cast<float>((Value(low) + Value(high)) / 2);
    ASSERT_EQ(Float16Bits(middle), bits % 2 == 0 ? low : high);
    ASSERT_EQ(Float16Bits(std::nextafter(middle, 0.0f)), low);
    ASSERT_EQ(Float16Bits(std::nextafter(middle, kInfinity)), high);
  }
  EXPECT_EQ(Float16Bits(65519.0f), 0x7bff);
  EXPECT_EQ(Float16Bits(65520.0f), 0x7c00);
  EXPECT_EQ(Float16Bits(-kInfinity), 0xfc00);
}

TEST(GgufNumbersTest, ABlockIsAScaleAndCodes) {
  std::vector<float> values(2 * kQ8Block);
  for (int64_t i = 0; i < kQ8Block; ++i) {
    values[i] = static_cast<float>(i % 2 == 0 ? i : -i) * 0.37f;
  }
  std::string bytes;
  ASSERT_OK(
      AppendNumbers(GgufNumber::kQ8_0, values.data(), 2 * kQ8Block, &bytes));
  ASSERT_EQ(bytes.size(), 2 * (2 + kQ8Block));
  uint16_t scale = 0;
  std::memcpy(&scale, bytes.data(), sizeof(scale));
  EXPECT_EQ(scale, Float16Bits(31 * 0.37f / 127));
  for (int64_t i = 0; i < kQ8Block; ++i) {
    const auto code = static_cast<int8_t>(bytes[2 + i]);
    EXPECT_NEAR(Value(scale) * code, values[i], 0.006 * 31 * 0.37);
  }
  EXPECT_EQ(static_cast<int8_t>(bytes[2 + 31]), -127);
  // A block of zeros.
  EXPECT_EQ(bytes.substr(2 + kQ8Block), std::string(2 + kQ8Block, '\0'));
}

TEST(GgufNumbersTest, WhatDoesNotFitIsRefused) {
  std::vector<float> values(kQ8Block, 1.0f);
  std::string bytes;
  for (const float large : {65520.0f, -1e6f, kInfinity, kNan}) {
    values[7] = large;
    EXPECT_THAT(
        AppendNumbers(GgufNumber::kFloat16, values.data(), kQ8Block, &bytes),
        StatusIs(absl::StatusCode::kOutOfRange));
  }
  for (const float large : {9e6f, -kInfinity, kNan}) {
    values[7] = large;
    EXPECT_THAT(
        AppendNumbers(GgufNumber::kQ8_0, values.data(), kQ8Block, &bytes),
        StatusIs(absl::StatusCode::kOutOfRange));
  }
  values[7] = 9e6f;
  EXPECT_OK(
      AppendNumbers(GgufNumber::kFloat32, values.data(), kQ8Block, &bytes));
}

}  // namespace
}  // namespace comera::trainer
