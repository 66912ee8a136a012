// Gradients and their tail are summed over the members of a gang.
#include "worker/trainer/loop/gradient_sum.h"

#include <memory>
#include <thread>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/collective/in_process_communicator.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

// A plan whose gradients and tail are all `value`.
struct FilledPlan {
  explicit FilledPlan(float value)
      : backend(kernels::CreateCpuBackend({/*threads=*/1})) {
    auto config = MakeModelConfig(TinySpec(), 32);
    EXPECT_OK(config);
    auto created = ModelPlan::Create(*config, 2, CreateModel, backend.get());
    EXPECT_OK(created);
    plan = *std::move(created);
    const kernels::Vector reduced = plan->reduced();
    EXPECT_OK(plan->Upload(std::vector<float>(reduced.size, value), reduced));
  }

  std::vector<float> Values() {
    auto values = plan->Download(plan->reduced());
    EXPECT_OK(values);
    return *values;
  }

  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<ModelPlan> plan;
};

TEST(GradientSumTest, AGangOfOneHasNothingToSum) {
  FilledPlan member(3);
  GradientSum sum(nullptr, member.backend.get());
  ASSERT_OK(sum.Sum(*member.plan));
  ASSERT_OK(sum.Check());
  for (float value : member.Values()) ASSERT_EQ(value, 3);
}

TEST(GradientSumTest, SumsTheGradientsWithTheirTail) {
  auto gang = collective::CreateInProcessGroup(2);
  std::vector<std::unique_ptr<FilledPlan>> members;
  for (float value : {1.0f, 4.0f}) {
    members.push_back(std::make_unique<FilledPlan>(value));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      GradientSum sum(gang[i].get(), members[i]->backend.get());
      EXPECT_OK(sum.Sum(*members[i]->plan));
      EXPECT_OK(sum.Check());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& member : members) {
    for (float value : member->Values()) ASSERT_EQ(value, 5);
  }
}

TEST(GradientSumTest, ABrokenGangIsACollectiveHang) {
  auto gang = collective::CreateInProcessGroup(2);
  gang[1].reset();
  FilledPlan member(1);
  const absl::Status status =
      GradientSum(gang[0].get(), member.backend.get()).Sum(*member.plan);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(FailureClassOf(status), v1::COLLECTIVE_HANG);
}

}  // namespace
}  // namespace comera::trainer
