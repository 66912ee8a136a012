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
#include "tests/fakes/forwarding_backend.h"

namespace comera::bench {
namespace {

using kernels::ConstMatrix;
using kernels::Matrix;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

// The processor's backend, if it were a device.
class DeviceBackend : public kernels::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  bool in_host_memory() const override { return false; }

 private:
  absl::Status Call(const std::string&, Operation operation) override {
    return operation();
  }
};

TEST(TimingBackendTest, TimesEveryOperation) {
  const auto cpu = kernels::CreateCpuBackend({1, 0});
  DeviceBackend device(cpu.get());
  double now = 0;
  // Every look at the clock is a second later.
  TimingBackend timing(&device, [&] { return now++; });
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

TEST(TimingBackendTest, OnTheHostNothingRunsTogether) {
  const auto cpu = kernels::CreateCpuBackend({1, 0});
  double now = 0;
  TimingBackend timing(cpu.get(), [&] { return now++; });
  std::vector<float> a(6, 1), b(6, 2);
  ASSERT_OK(kernels::RunTogether(&timing, [&]() -> absl::Status {
    RETURN_IF_ERROR(timing.Fill({a.data(), 6}, 3));
    return timing.Axpy(1, {a.data(), 6}, {b.data(), 6});
  }));
  EXPECT_EQ(b[5], 5);
  EXPECT_THAT(timing.operations(),
              UnorderedElementsAre(Key("Fill"), Key("Axpy")));
}

}  // namespace
}  // namespace comera::bench
