// Captures that fail, on CUDA.
#include <memory>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "worker/trainer/step/step_runner.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class HostCudaStepRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::Reset();
    ASSERT_OK_AND_ASSIGN(backend_, kernels::CreateCudaBackend({}));
    ASSERT_OK_AND_ASSIGN(void* const memory,
                         backend_->Allocate(2 * sizeof(float)));
    numbers_ = static_cast<float*>(memory);
    const float numbers[] = {1, 0};
    ASSERT_OK(backend_->CopyToDevice(numbers_, numbers, sizeof(numbers)));
  }
  void TearDown() override { fake_cuda::Reset(); }

  absl::StatusOr<bool> Step(StepRunner& runner) {
    return runner.Run({1}, [&]() -> absl::Status {
      absl::Status status = backend_->Scale(1, {numbers_ + 1, 1});
      status.Update(backend_->Axpy(1, {numbers_, 1}, {numbers_ + 1, 1}));
      return status;
    });
  }

  float Number() {
    float number = -1;
    EXPECT_OK(backend_->CopyToHost(&number, numbers_ + 1, sizeof(number)));
    return number;
  }

  std::unique_ptr<kernels::Backend> backend_;
  float* numbers_ = nullptr;
  std::vector<std::string> log_;
};

TEST_F(HostCudaStepRunnerTest, Replays) {
  StepRunner runner(backend_.get(), true, [](const std::string&) {});
  for (int i = 0; i < 5; ++i) ASSERT_OK(Step(runner).status());
  EXPECT_EQ(Number(), 5);
  EXPECT_EQ(runner.counters().replayed, 3);
  EXPECT_EQ(fake_cuda::CurrentCounts().graph_launches, 4);
}

TEST_F(HostCudaStepRunnerTest, ALaunchThatCannotBeRecorded) {
  StepRunner runner(backend_.get(), true,
                    [this](const std::string& line) { log_.push_back(line); });
  ASSERT_OK(Step(runner).status());
  fake_cuda::FailLaunch(2, cudaErrorLaunchOutOfResources);
  for (int i = 0; i < 3; ++i) ASSERT_OK(Step(runner).status());
  EXPECT_EQ(Number(), 4);
  EXPECT_THAT(log_, SizeIs(1));
  EXPECT_EQ(runner.counters().eager, 4);
}

TEST_F(HostCudaStepRunnerTest, ADeviceThatIsLost) {
  StepRunner runner(backend_.get(), true,
                    [this](const std::string& line) { log_.push_back(line); });
  for (int i = 0; i < 3; ++i) ASSERT_OK(Step(runner).status());
  fake_cuda::FailLaunch(1, cudaErrorIllegalAddress);
  EXPECT_FALSE(backend_->Scale(1, {numbers_, 1}).ok());
  EXPECT_THAT(Step(runner).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("Illegal")));
}

}  // namespace
}  // namespace comera::trainer
