// Gradients and their tail are summed over the members of a gang.
#include "worker/trainer/step/gradient_sum.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/collective/in_process_communicator.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;

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

// All gradients of the plan, in two buckets.
std::vector<ParameterRange> TwoBuckets(const FilledPlan& member) {
  const int64_t size = member.plan->gradients().size, half = size / 2;
  return {{half, size - half}, {0, half}};
}

absl::Status SumIn(GradientSum& sum, FilledPlan& member,
                   const std::vector<ParameterRange>& buckets) {
  for (const ParameterRange& bucket : buckets) {
    RETURN_IF_ERROR(sum.Start(*member.plan, bucket));
  }
  return sum.Finish();
}

std::vector<ParameterRange> OneBucket(const FilledPlan& member) {
  return {{0, member.plan->gradients().size}};
}

// Passes on what it is asked to sum, once it may.
class SlowCommunicator : public collective::Communicator {
 public:
  explicit SlowCommunicator(collective::Communicator* inner) : inner_(*inner) {}

  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  absl::Status AllReduce(absl::Span<float> values) override {
    may_sum.WaitForNotification();
    sizes.push_back(values.size());
    return inner_.AllReduce(values);
  }
  absl::Status AllReduceCompressed(absl::Span<float> values,
                                   size_t exact_tail) override {
    tails.push_back(exact_tail);
    return AllReduce(values);
  }
  absl::Status Broadcast(absl::Span<char> bytes, int root) override {
    return inner_.Broadcast(bytes, root);
  }
  absl::Status Barrier() override { return inner_.Barrier(); }
  void Abort() override { inner_.Abort(); }
  int64_t collectives_done() const override {
    return inner_.collectives_done();
  }

  absl::Notification may_sum;
  std::vector<size_t> sizes, tails;

 private:
  collective::Communicator& inner_;
};

TEST(GradientSumTest, AGangOfOneHasNothingToSum) {
  FilledPlan member(3);
  GradientSum sum(nullptr, member.backend.get());
  EXPECT_FALSE(sum.overlaps());
  ASSERT_OK(SumIn(sum, member, OneBucket(member)));
  ASSERT_OK(sum.Check());
  for (float value : member.Values()) ASSERT_EQ(value, 3);
}

TEST(GradientSumTest, SumsTheGradientsWithTheirTail) {
  for (const bool in_buckets : {false, true}) {
    auto gang = collective::CreateInProcessGroup(2);
    std::vector<std::unique_ptr<FilledPlan>> members;
    for (float value : {1.0f, 4.0f}) {
      members.push_back(std::make_unique<FilledPlan>(value));
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        FilledPlan& member = *members[i];
        GradientSum sum(gang[i].get(), member.backend.get());
        EXPECT_TRUE(sum.overlaps());
        EXPECT_OK(SumIn(sum, member,
                        in_buckets ? TwoBuckets(member) : OneBucket(member)));
        EXPECT_OK(sum.Check());
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (auto& member : members) {
      for (float value : member->Values()) ASSERT_EQ(value, 5);
    }
  }
}

TEST(GradientSumTest, ABucketIsSummedWhileTheNextIsComputed) {
  auto gang = collective::CreateInProcessGroup(2);
  FilledPlan member(1), other(2);
  std::thread thread([&] {
    GradientSum sum(gang[1].get(), other.backend.get());
    EXPECT_OK(SumIn(sum, other, TwoBuckets(other)));
  });
  SlowCommunicator slow(gang[0].get());
  GradientSum sum(&slow, member.backend.get(), /*compress=*/true);
  const std::vector<ParameterRange> buckets = TwoBuckets(member);
  ASSERT_OK(sum.Start(*member.plan, buckets[0]));
  // It returned before the sum; now this thread would compute.
  EXPECT_EQ(member.Values().back(), 1);
  ASSERT_OK(sum.Start(*member.plan, buckets[1]));
  slow.may_sum.Notify();
  ASSERT_OK(sum.Finish());
  thread.join();
  for (float value : member.Values()) ASSERT_EQ(value, 3);
  const auto tail = static_cast<size_t>(ModelPlan::kTailFloats);
  EXPECT_THAT(slow.sizes, ElementsAre(buckets[0].size + tail, buckets[1].size));
  EXPECT_THAT(slow.tails, ElementsAre(tail, 0));
}

TEST(GradientSumTest, ABrokenGangIsACollectiveHang) {
  for (const bool in_buckets : {false, true}) {
    auto gang = collective::CreateInProcessGroup(2);
    gang[1].reset();
    FilledPlan member(1);
    GradientSum sum(gang[0].get(), member.backend.get());
    const absl::Status status = SumIn(
        sum, member, in_buckets ? TwoBuckets(member) : OneBucket(member));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(FailureClassOf(status), v1::COLLECTIVE_HANG);
  }
}

}  // namespace
}  // namespace comera::trainer
