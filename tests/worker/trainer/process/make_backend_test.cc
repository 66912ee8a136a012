// A backend is made for the device and precision that a task asks for.
#include "worker/trainer/process/make_backend.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

TEST(MakeBackendTest, ACpuBackendKeepsItsLimit) {
  BackendOptions options;
  options.memory_limit_bytes = 1000;
  ASSERT_OK_AND_ASSIGN(const auto backend, MakeBackend(options));
  ASSERT_OK_AND_ASSIGN(const int64_t free, backend->FreeBytes());
  EXPECT_EQ(free, 1000);
  EXPECT_THAT(backend->Allocate(1001),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(MakeBackendTest, AnyAndUnsetMeanTheCpu) {
  BackendOptions options;
  options.device = v1::ResourceSpec::ANY;
  options.threads = 1;
  EXPECT_OK(MakeBackend(options));
  EXPECT_EQ(DeviceName(options).value_or(""), "CPU, 1 thread");
  options.threads = 2;
  EXPECT_EQ(DeviceName(options).value_or(""), "CPU, 2 threads");
}

TEST(MakeBackendTest, PrecisionsThatTheCpuLacksAreRefused) {
  BackendOptions options;
  options.precision = v1::TrainingSpec::TF32;
  EXPECT_THAT(MakeBackend(options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("training.precision: TF32 needs a GPU")));
  options.precision = v1::TrainingSpec::BF16;
  EXPECT_EQ(MakeBackend(options).ok(), kernels::CpuHasBf16());
}

// Machines that run the tests have no GPU; where there is one this shows
// nothing.
TEST(MakeBackendTest, AGpuThatIsNotThereIsRefused) {
  BackendOptions options;
  options.device = v1::ResourceSpec::GPU;
  const auto name = DeviceName(options);
  if (name.ok()) GTEST_SKIP() << "there is one: " << *name;
  EXPECT_THAT(name, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(
      MakeBackend(options),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               testing::AnyOf(HasSubstr("without CUDA"), HasSubstr("no GPU"))));
}

}  // namespace
}  // namespace comera::trainer
