// A late stage that continues another job's early stage repeats, bit by bit,
// the job that does both.
#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kEarlySteps = 40;

// Early to step 40, where a validation and a compaction are due too; late to
// 70. Entries die from about step 20 on.
v1::JobSpec WholeSpec(double target_ratio = 0.1) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_objective()->mutable_early()->set_steps(kEarlySteps);
  spec.mutable_objective()->mutable_early()->set_gamma(0.3);
  v1::LateStage& late = *spec.mutable_objective()->mutable_late();
  late.set_target_loss(1.0);
  late.set_target_ratio(target_ratio);
  late.set_w_size(20);
  late.set_max_steps(30);
  return WithDefaults(spec);
}

v1::JobSpec EarlySpec(v1::JobSpec spec) {
  spec.mutable_objective()->mutable_early()->set_only(true);
  v1::LateStage late;
  late.set_max_steps(spec.objective().late().max_steps());
  *spec.mutable_objective()->mutable_late() = late;
  return WithDefaults(spec);
}

v1::JobSpec ForkSpec(v1::JobSpec spec) {
  spec.mutable_start_from()->set_checkpoint("jobs/early/checkpoints/40");
  return spec;
}

TestRun Train(const v1::JobSpec& spec, int ranks, const std::string& start) {
  TestRun run;
  run.spec = spec;
  run.start = start;
  run.Run(ranks);
  return run;
}

void ExpectSameLateStage(const TestRun& whole, const TestRun& fork) {
  ASSERT_OK(whole.end);
  ASSERT_OK(fork.end);
  const auto want = whole.Losses();
  const auto got = fork.Losses();
  EXPECT_EQ(got.size() + kEarlySteps, want.size());
  for (const auto& [step, loss] : got) {
    EXPECT_GT(step, kEarlySteps);
    EXPECT_EQ(loss, want.at(step)) << "step " << step;
  }
  EXPECT_EQ(fork.end->result.SerializeAsString(),
            whole.end->result.SerializeAsString());
  EXPECT_EQ(fork.exported, whole.exported);
  EXPECT_EQ(fork.events.front().run_info().resumed_from_step(), kEarlySteps);
}

struct Case {
  const char* name;
  int ranks;
  void (*change)(v1::JobSpec*);
};

class TrainerForkTest : public ::testing::TestWithParam<Case> {};

TEST_P(TrainerForkTest, RepeatsTheJobThatDoesBothStages) {
  v1::JobSpec whole_spec = WholeSpec();
  GetParam().change(&whole_spec);
  const TestRun early = Train(EarlySpec(whole_spec), GetParam().ranks, "");
  ASSERT_OK(early.end);
  ASSERT_FALSE(early.early_stage.empty());
  EXPECT_EQ(early.end->result.outcome(), v1::COMPLETED);
  EXPECT_EQ(early.end->result.step(), kEarlySteps);
  for (double ratio : {0.1, 0.9}) {
    SCOPED_TRACE(ratio);
    v1::JobSpec spec = whole_spec;
    spec.mutable_objective()->mutable_late()->set_target_ratio(ratio);
    ExpectSameLateStage(
        Train(spec, GetParam().ranks, ""),
        Train(ForkSpec(spec), GetParam().ranks, early.early_stage));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, TrainerForkTest,
    ::testing::Values(
        Case{"OneRank", 1, [](v1::JobSpec*) {}},
        Case{"TwoRanks", 2, [](v1::JobSpec*) {}},
        Case{"RateThatDecaysOverBothStages", 1,
             [](v1::JobSpec* spec) {
               spec->mutable_optimizer()->set_decay(v1::OptimizerSpec::COSINE);
             }},
        Case{"NoCompactionAtTheEnd", 1,
             [](v1::JobSpec* spec) {
               spec->mutable_compression()->set_compact_every_steps(7);
             }},
        Case{"Reference", 1,
             [](v1::JobSpec* spec) {
               spec->mutable_objective()->set_kind(
                   v1::ObjectiveSpec::REFERENCE);
             }}),
    [](const auto& info) { return info.param.name; });

TEST(TrainerForkTest, AnEarlyStageReportsItsLastStepOnceAndValidated) {
  for (int64_t every : {kEarlySteps, kEarlySteps - 3}) {
    v1::JobSpec spec = EarlySpec(WholeSpec());
    spec.mutable_training()->set_report_every_steps(1);
    spec.mutable_training()->set_validate_every_steps(every);
    const TestRun run = Train(spec, 1, "");
    ASSERT_OK(run.end);
    int64_t step = 0;
    double validation_loss = 0;
    for (const v1::TrainerEvent& event : run.events) {
      if (!event.has_metrics()) continue;
      EXPECT_EQ(event.metrics().step(), ++step);
      validation_loss = event.metrics().validation_loss();
    }
    EXPECT_EQ(step, kEarlySteps);
    EXPECT_GT(validation_loss, 0);
  }
}

TEST(TrainerForkTest, AnInterruptedEarlyStageLeavesTheSameState) {
  const v1::JobSpec spec = EarlySpec(WholeSpec());
  const TestRun whole = Train(spec, 1, "");
  FakeDisk disk;
  TestRun first;
  first.spec = spec;
  first.disk = &disk;
  first.stop_after_step = 33;
  first.Run();
  ASSERT_OK(first.end);
  ASSERT_TRUE(first.end->stopped);
  EXPECT_EQ(first.early_stage, "");
  TestRun second;
  second.spec = spec;
  second.disk = &disk;
  second.resume = true;
  second.Run();
  ASSERT_OK(second.end);
  EXPECT_EQ(second.early_stage, whole.early_stage);
}

TEST(TrainerForkTest, AForkResumesFromItsOwnCheckpoint) {
  const TestRun early = Train(EarlySpec(WholeSpec()), 1, "");
  FakeDisk disk;
  TestRun first;
  first.spec = ForkSpec(WholeSpec());
  first.start = early.early_stage;
  first.disk = &disk;
  first.stop_after_step = 52;
  first.Run();
  ASSERT_TRUE(first.end.ok() && first.end->stopped);
  TestRun second;
  second.spec = ForkSpec(WholeSpec());
  second.start = "never read";
  second.disk = &disk;
  second.resume = true;
  second.Run();
  ASSERT_OK(second.end);
  const TestRun whole = Train(WholeSpec(), 1, "");
  EXPECT_EQ(second.exported, whole.exported);
}

// In the middle of the early stage, and of the late one.
TEST(TrainerForkTest, AForkGoesOnFromAnyStateAsItsJobDid) {
  const TestRun whole = Train(WholeSpec(), 1, "");
  for (const int64_t step : {20, 52}) {
    FakeDisk disk;
    TestRun first;
    first.spec = WholeSpec();
    first.disk = &disk;
    first.stop_after_step = step;
    first.Run();
    ASSERT_TRUE(first.end.ok() && first.end->stopped);
    const TestRun fork =
        Train(ForkSpec(WholeSpec()), 1, disk.files.rbegin()->second);
    ASSERT_OK(fork.end);
    EXPECT_EQ(fork.events.front().run_info().resumed_from_step(), step + 1);
    EXPECT_EQ(fork.end->result.SerializeAsString(),
              whole.end->result.SerializeAsString());
    EXPECT_EQ(fork.exported, whole.exported);
  }
}

TEST(TrainerForkTest, AnotherEarlyStageIsTheUsersMistake) {
  const TestRun early = Train(EarlySpec(WholeSpec()), 1, "");
  v1::JobSpec other = ForkSpec(WholeSpec());
  other.mutable_training()->set_seed(8);
  const TestRun fork = Train(other, 1, early.early_stage);
  EXPECT_THAT(fork.end, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("another training")));
  EXPECT_EQ(FailureClassOf(fork.end.status()), v1::USER);
}

TEST(TrainerForkTest, ADamagedCheckpointIsNotUsed) {
  TestRun early = Train(EarlySpec(WholeSpec()), 1, "");
  early.early_stage[early.early_stage.size() / 2] ^= 1;
  const TestRun fork = Train(ForkSpec(WholeSpec()), 1, early.early_stage);
  EXPECT_THAT(fork.end, StatusIs(absl::StatusCode::kDataLoss,
                                 HasSubstr("jobs/early/checkpoints/40")));
  EXPECT_EQ(FailureClassOf(fork.end.status()), v1::CHECKPOINT_DAMAGED);
}

}  // namespace
}  // namespace comera::trainer
