// training.max_tokens ends the early stage after the same step whatever the run
// is made of.
#include <cstdint>
#include <memory>
#include <utility>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "tests/worker/trainer/loop/uneven_data.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 8;
constexpr int64_t kTokens = 150;

// The first step with which kTokens labels were trained on.
int64_t LastStep(const UnevenData& data) {
  int64_t labels = 0;
  for (int64_t step = 1;; ++step) {
    labels += data.Count(step - 1, kBatch).second;
    if (labels >= kTokens) return step;
  }
}

class TrainerTokensTest : public ::testing::Test {
 protected:
  std::unique_ptr<TestRun> NewRun(FakeDisk* disk = nullptr) {
    auto run = std::make_unique<TestRun>();
    run->spec = spec_;
    run->other_data = &data_;
    run->disk = disk;
    return run;
  }
  void ExpectEnd(const TestRun& run) {
    for (const absl::Status& status : run.statuses) ASSERT_OK(status);
    const v1::TrainingResult& result = run.end->result;
    EXPECT_EQ(result.step(), last_);
    EXPECT_THAT(result.reason(), HasSubstr("tokens in"));
    // The last step is validated.
    const v1::StepMetrics m =
        run.Select(&v1::TrainerEvent::has_metrics).back().metrics();
    EXPECT_EQ(m.step(), last_);
    EXPECT_EQ(m.total_steps(), last_);
    EXPECT_TRUE(m.has_validation_loss());
  }

  const UnevenData data_;
  const int64_t last_ = LastStep(data_);
  v1::JobSpec spec_ = [] {
    v1::JobSpec spec = TinySpec();
    spec.mutable_objective()->mutable_early()->set_steps(60);
    spec.mutable_training()->set_max_tokens(kTokens);
    return spec;
  }();
};

TEST_F(TrainerTokensTest, EndsAfterTheSameStepWithAnyMembersAndParts) {
  ASSERT_GT(last_, 12);
  ASSERT_LT(last_, 50);
  for (const auto& [members, parts] :
       {std::pair(1, 1), {2, 1}, {4, 1}, {1, 4}, {2, 2}}) {
    SCOPED_TRACE(testing::Message() << members << " members, " << parts);
    const auto run = NewRun();
    run->spec.mutable_training()->set_accumulate(parts);
    run->Run(members);
    ExpectEnd(*run);
  }
}

TEST_F(TrainerTokensTest, PlannedStepsEndItTooIfTheyComeFirst) {
  const auto run = NewRun();
  run->spec.mutable_objective()->mutable_early()->set_steps(last_ - 1);
  run->Run();
  ASSERT_OK(run->end);
  EXPECT_EQ(run->end->result.step(), last_ - 1);
  EXPECT_THAT(run->end->result.reason(), HasSubstr("all"));
}

TEST_F(TrainerTokensTest, AResumedRunHasCountedTheLabelsBefore) {
  const auto whole = NewRun();
  whole->Run();
  ASSERT_OK(whole->end);
  // In the middle, and right before the end.
  for (const int64_t stop : {last_ / 2, last_ - 2}) {
    FakeDisk disk;
    const auto first = NewRun(&disk), second = NewRun(&disk);
    first->stop_after_step = stop;
    first->Run();
    ASSERT_OK(first->end);
    ASSERT_TRUE(first->end->stopped);
    second->resume = true;
    second->Run(2);
    ExpectEnd(*second);
    // Rounding alone differs with the members.
    EXPECT_NEAR(second->end->result.validation_loss(),
                whole->end->result.validation_loss(), 1e-3);
  }
}

TEST_F(TrainerTokensTest, TheLateStageBeginsThere) {
  v1::LateStage& late = *spec_.mutable_objective()->mutable_late();
  late.set_target_loss(0.01);
  late.set_target_ratio(0.9);
  late.set_max_steps(10);
  spec_ = WithDefaults(spec_);
  const auto whole = NewRun();
  whole->Run();
  ASSERT_OK(whole->end);
  EXPECT_EQ(whole->end->result.step(), last_ + 10);
  for (const auto& event : whole->Select(&v1::TrainerEvent::has_metrics)) {
    const v1::StepMetrics& m = event.metrics();
    // The step that ends the early stage is reported behind it.
    if (m.step() != last_) {
      EXPECT_EQ(m.stage(), m.step() > last_ ? v1::LATE : v1::EARLY) << m.step();
    }
    if (m.step() > last_) {
      EXPECT_EQ(m.total_steps(), last_ + 10);
    }
  }
  FakeDisk disk;
  const auto first = NewRun(&disk), second = NewRun(&disk);
  first->stop_after_step = last_ + 4;
  first->Run();
  ASSERT_OK(first->end);
  second->resume = true;
  second->Run();
  ASSERT_OK(second->end);
  EXPECT_EQ(second->end->result.SerializeAsString(),
            whole->end->result.SerializeAsString());
  EXPECT_EQ(second->exported, whole->exported);
}

}  // namespace
}  // namespace comera::trainer
