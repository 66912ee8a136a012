// The vectorised functions stay within their bounds of error.
#include "kernels/cpu/vector_math.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

// Largest relative error over [low, high].
template <typename F, typename G>
double WorstError(double low, double high, F approximate, G exact) {
  double worst = 0;
  constexpr int kSteps = 200000;
  for (int i = 0; i <= kSteps; ++i) {
    const float x = static_cast<float>(low + (high - low) * i / kSteps);
    const double want = exact(static_cast<double>(x));
    if (want == 0) continue;
    worst = std::max(worst, std::fabs(approximate(x) - want) / std::fabs(want));
  }
  return worst;
}

TEST(VectorMathTest, RelativeErrors) {
  EXPECT_LT(WorstError(
                -87, 88, [](float x) { return VectorExp(x); },
                [](double x) { return std::exp(x); }),
            1.2e-7);
  EXPECT_LT(WorstError(
                -10, 10, [](float x) { return VectorTanh(x); },
                [](double x) { return std::tanh(x); }),
            5e-7);
}

TEST(VectorMathTest, SineAndCosine) {
  double worst = 0;
  // Every octant of small angles, and angles as of far positions.
  for (double end : {20.0, 2e5, 2e9}) {
    for (int i = -100000; i <= 100000; ++i) {
      const double angle = end * i / 100000.0;
      float sine, cosine;
      VectorSineCosine(angle, &sine, &cosine);
      worst = std::max({worst, std::fabs(sine - std::sin(angle)),
                        std::fabs(cosine - std::cos(angle))});
    }
  }
  EXPECT_LT(worst, 3e-7);
  float sine, cosine;
  VectorSineCosine(0, &sine, &cosine);
  EXPECT_EQ(sine, 0.0f);
  EXPECT_EQ(cosine, 1.0f);
}

TEST(VectorMathTest, Ends) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NEAR(VectorTanh(infinity), 1.0f, 5e-7);
  EXPECT_LT(VectorExp(-infinity), 2e-38f);
  EXPECT_GT(VectorExp(infinity), 1e38f);
  EXPECT_TRUE(std::isnan(VectorExp(nan)));
  EXPECT_TRUE(std::isnan(VectorTanh(nan)));
}

}  // namespace
}  // namespace comera::kernels
