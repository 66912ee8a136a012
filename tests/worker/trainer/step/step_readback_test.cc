// The numbers of a step reach the host in order, at most two steps behind.
#include "worker/trainer/step/step_readback.h"

#include <memory>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/fakes/recording_backend.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;

class StepReadbackTest : public ::testing::Test {
 protected:
  std::unique_ptr<StepReadback> Make(kernels::Backend* backend) {
    auto numbers = StepReadback::Create(
        {{first_.data(), 2}, {second_.data(), 0}, {second_.data(), 1}},
        backend);
    EXPECT_OK(numbers);
    return *std::move(numbers);
  }

  std::vector<float> Await(StepReadback& numbers) {
    auto values = numbers.Await();
    EXPECT_OK(values);
    return values.ok() ? std::vector<float>(*values, *values + 3)
                       : std::vector<float>();
  }

  const std::unique_ptr<kernels::Backend> cpu_ =
      kernels::CreateCpuBackend({1, 0});
  kernels::RecordingBackend backend_{cpu_.get()};
  std::vector<float> first_ = {1, 2}, second_ = {3};
};

TEST_F(StepReadbackTest, AreThoseOfTheirStep) {
  for (kernels::Backend* backend :
       {static_cast<kernels::Backend*>(&backend_), cpu_.get()}) {
    first_ = {1, 2};
    const auto numbers = Make(backend);
    ASSERT_OK(numbers->Enqueue());
    for (float step = 2; step < 6; ++step) {
      first_ = {step, 2 * step};
      ASSERT_OK(numbers->Enqueue());
      EXPECT_THAT(Await(*numbers), ElementsAre(step - 1, 2 * (step - 1), 3));
    }
    EXPECT_THAT(Await(*numbers), ElementsAre(5, 10, 3));
  }
}

TEST_F(StepReadbackTest, NeitherTooFewNorTooMany) {
  const auto numbers = Make(&backend_);
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(numbers->Await(), refused);
  ASSERT_OK(numbers->Enqueue());
  ASSERT_OK(numbers->Enqueue());
  EXPECT_THAT(numbers->Enqueue(), refused);
  Await(*numbers);
  Await(*numbers);
  EXPECT_THAT(numbers->Await(), refused);
}

}  // namespace
}  // namespace comera::trainer
