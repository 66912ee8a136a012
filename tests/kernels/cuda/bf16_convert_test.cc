// Conversions to bfloat16 and back round to nearest and keep infinity and NaN.
#include "kernels/cuda/bf16_convert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

constexpr uint16_t kCanary = 0x5a5a;

float Number(int64_t i) {
  return std::sin(0.7f * static_cast<float>(i)) *
         std::pow(2.0f, static_cast<float>(i % 60 - 30));
}

uint16_t Nearest(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float Widen(uint16_t value) {
  const uint32_t bits = uint32_t{value} << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

// The floats begin so many behind an aligned address.
class Bf16ConvertTest : public testing::TestWithParam<int> {};

TEST_P(Bf16ConvertTest, ThereAndBack) {
  const int shift = GetParam();
  for (int64_t count : {0, 1, 7, 8, 9, 1000, 4099, 2200003}) {
    SCOPED_TRACE(count);
    std::vector<float> numbers(count);
    for (int64_t i = 0; i < count; ++i) numbers[i] = Number(i);
    // Ties go to even.
    if (count > 7) {
      numbers[3] = 1.0f + 1.0f / 256;
      numbers[5] = 1.0f + 3.0f / 256;
    }
    const size_t bytes = count * sizeof(float);
    float* floats = nullptr;
    uint16_t* bf16 = nullptr;
    ASSERT_EQ(cudaMalloc(&floats, bytes + 64), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&bf16, count * 2 + 64), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(floats + shift, numbers.data(), bytes,
                         cudaMemcpyHostToDevice),
              cudaSuccess);
    ASSERT_EQ(cudaMemcpy(bf16 + count, &kCanary, 2, cudaMemcpyHostToDevice),
              cudaSuccess);
    ASSERT_OK(FloatsToBf16(count, floats + shift, bf16, nullptr));
    std::vector<uint16_t> half(count + 1);
    ASSERT_EQ(
        cudaMemcpy(half.data(), bf16, count * 2 + 2, cudaMemcpyDeviceToHost),
        cudaSuccess);
    EXPECT_EQ(half[count], kCanary);
    ASSERT_OK(Bf16ToFloats(count, bf16, floats + shift, nullptr));
    std::vector<float> back(count);
    ASSERT_EQ(
        cudaMemcpy(back.data(), floats + shift, bytes, cudaMemcpyDeviceToHost),
        cudaSuccess);
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(half[i], Nearest(numbers[i])) << i;
      ASSERT_EQ(back[i], Widen(half[i])) << i;
    }
    EXPECT_EQ(cudaFree(floats), cudaSuccess);
    EXPECT_EQ(cudaFree(bf16), cudaSuccess);
  }
}

INSTANTIATE_TEST_SUITE_P(Alignment, Bf16ConvertTest, testing::Values(0, 1));

TEST(Bf16NotFiniteTest, WhatIsNotFiniteStaysSo) {
  const std::vector<float> numbers = {std::numeric_limits<float>::infinity(),
                                      -std::numeric_limits<float>::infinity(),
                                      std::numeric_limits<float>::quiet_NaN()};
  float* floats = nullptr;
  void* bf16 = nullptr;
  ASSERT_EQ(cudaMalloc(&floats, 64), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&bf16, 64), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(floats, numbers.data(), 12, cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_OK(FloatsToBf16(3, floats, bf16, nullptr));
  ASSERT_OK(Bf16ToFloats(3, bf16, floats, nullptr));
  std::vector<float> back(3);
  ASSERT_EQ(cudaMemcpy(back.data(), floats, 12, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(back[0], numbers[0]);
  EXPECT_EQ(back[1], numbers[1]);
  EXPECT_TRUE(std::isnan(back[2]));
  cudaFree(floats);
  cudaFree(bf16);
}

}  // namespace
}  // namespace comera::kernels
