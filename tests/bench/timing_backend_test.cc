// Operations are timed one by one, and those that run together as one.
#include "tests/bench/timing_backend.h"

#include <string>
#include <vector>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/together.h"

namespace comera::bench {
namespace {

using kernels::ConstMatrix;
using kernels::Matrix;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

TEST(TimingBackendTest, TimesEveryOperation) {
  const auto cpu = kernels::CreateCpuBackend({1, 0});
  double now = 0;
  // Every look at the clock is a second later.
  TimingBackend timing(cpu.get(), [&] { return now++; });
  std::vector<float> a(6, 1), b(6, 2), c(9, 5);
  const auto product = [&](float beta) {
    return timing.Gemm(true, false, 1, ConstMatrix(a.data(), 2, 3),
                       ConstMatrix(b.data(), 2, 3), beta,
                       Matrix(c.data(), 3, 3));
  };
  ASSERT_OK(product(0));
  EXPECT_EQ(c[0], 4);
  ASSERT_OK(product(1));
  EXPECT_EQ(c[0], 8);
  ASSERT_OK(timing.Fill({a.data(), 6}, 3));
  EXPECT_EQ(a[5], 3);
  ASSERT_OK(kernels::RunTogether(&timing, [&]() -> absl::Status {
    RETURN_IF_ERROR(product(0));
    return timing.Fill({b.data(), 6}, 1);
  }));
  EXPECT_THAT(timing.operations(),
              UnorderedElementsAre(Key("Gemm"), Key("Fill"), Key("Together")));
  EXPECT_EQ(timing.operations().at("Gemm").calls, 2);
  EXPECT_EQ(timing.operations().at("Gemm").seconds, 2);
  EXPECT_EQ(timing.operations().at("Together").calls, 1);
  EXPECT_THAT(timing.products(), UnorderedElementsAre(Key("3 x 3 x 2 TN"),
                                                      Key("3 x 3 x 2 TN +=")));
  timing.Clear();
  EXPECT_TRUE(timing.operations().empty());
}

}  // namespace
}  // namespace comera::bench
