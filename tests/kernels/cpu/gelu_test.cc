// The vectorised GELU stays within its bounds of error, also at its ends.
#include "kernels/cpu/gelu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

double Phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double Density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0));
}

TEST(GeluTest, Errors) {
  std::vector<float> x;
  for (int i = -200000; i <= 200000; ++i) {
    x.push_back(static_cast<float>(i) * 1e-4f);
  }
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<float> alone(n), value(n), slope(n);
  GeluRun(x.data(), alone.data(), n);
  GeluAndSlopeRun(x.data(), value.data(), slope.data(), n);
  EXPECT_EQ(alone, value);
  double worst_value = 0, worst_slope = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = x[i];
    const double scale = std::max(1.0, std::fabs(v));
    worst_value =
        std::max(worst_value, std::fabs(value[i] - v * Phi(v)) / scale);
    worst_slope =
        std::max(worst_slope, std::fabs(slope[i] - (Phi(v) + v * Density(v))));
  }
  EXPECT_LT(worst_value, 2e-7);
  EXPECT_LT(worst_slope, 2e-7);
}

TEST(GeluTest, AnyCountAndInPlace) {
  std::vector<float> x(200);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.7f * i) * 4;
  std::vector<float> value(x.size()), slope(x.size());
  GeluAndSlopeRun(x.data(), value.data(), slope.data(), x.size());
  for (int64_t n : {0, 1, 15, 16, 63, 64, 65, 130}) {
    std::vector<float> in_place = x, other(x.size(), 9);
    GeluRun(in_place.data(), in_place.data(), n);
    for (int64_t i = 0; i < 200; ++i) {
      ASSERT_EQ(in_place[i], i < n ? value[i] : x[i]) << n << " " << i;
    }
    in_place = x;
    GeluAndSlopeRun(in_place.data(), other.data(), in_place.data(), n);
    for (int64_t i = 0; i < 200; ++i) {
      ASSERT_EQ(other[i], i < n ? value[i] : 9) << n << " " << i;
      ASSERT_EQ(in_place[i], i < n ? slope[i] : x[i]) << n << " " << i;
    }
  }
}

TEST(GeluTest, Ends) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float x[] = {kInfinity,
                     -kInfinity,
                     1e30f,
                     -1e30f,
                     0,
                     -0.0f,
                     std::numeric_limits<float>::quiet_NaN()};
  float value[7], slope[7];
  GeluAndSlopeRun(x, value, slope, 7);
  EXPECT_EQ(value[0], kInfinity);
  EXPECT_NEAR(value[1], 0, 1e-30);
  EXPECT_EQ(value[2], 1e30f);
  EXPECT_NEAR(value[3], 0, 1e-30);
  EXPECT_EQ(value[4], 0);
  EXPECT_EQ(value[5], 0);
  EXPECT_EQ(slope[0], 1);
  EXPECT_NEAR(slope[1], 0, 1e-30);
  EXPECT_EQ(slope[2], 1);
  EXPECT_NEAR(slope[4], 0.5, 1e-7);
  EXPECT_TRUE(std::isnan(value[6]));
  EXPECT_TRUE(std::isnan(slope[6]));
}

}  // namespace
}  // namespace comera::kernels
