// What is reported when a job, or one of its targets, has ended.
#include "worker/trainer/loop/training_result.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/tiny_job.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

v1::JobSpec SpecWithTargets(int count) {
  v1::JobSpec spec = TinySpec();
  for (int i = 0; i < count; ++i) {
    v1::Target& target =
        *spec.mutable_objective()->mutable_late()->add_targets();
    target.set_target_loss(1.5);
    target.set_target_ratio(0.5);
  }
  return WithDefaults(spec);
}

TargetOutcome Outcome(bool met) {
  TargetOutcome outcome;
  outcome.met = met;
  outcome.target_size = 1000;
  outcome.steps = 12;
  outcome.validation.step = 42;
  outcome.validation.loss = 1.25;
  outcome.validation.accuracy = 0.5;
  outcome.size = 900;
  return outcome;
}

TEST(TrainingResultTest, ATargetsResultIsThatOfItsNearestModel) {
  TargetOutcome outcome = Outcome(true);
  outcome.validation.clicks = ClickMetrics{0.75, 0.9};
  const v1::TrainingResult result = MakeTargetResult(outcome);
  EXPECT_EQ(result.outcome(), v1::TARGET_MET);
  EXPECT_EQ(result.step(), 42);
  EXPECT_EQ(result.validation_loss(), 1.25);
  EXPECT_EQ(result.validation_auc(), 0.75);
  EXPECT_EQ(result.validation_normalized_entropy(), 0.9);
  EXPECT_EQ(result.size_parameters(), 900);
  EXPECT_EQ(result.size_bytes(), 3600);
  EXPECT_EQ(MakeTargetResult(Outcome(false)).outcome(), v1::TARGET_MISSED);
}

TEST(TrainingResultTest, WithoutTargetsAllStepsAreTheResult) {
  const v1::JobSpec spec = TinySpec();
  const TrainingSchedule schedule(&spec);
  TrainingProgress progress;
  progress.step = 30;
  progress.validation.loss = 1.75;
  progress.front.Add({10, 2.0, 500});
  const v1::TrainingResult result =
      MakeTrainingResult(schedule, progress, 1234);
  EXPECT_EQ(result.outcome(), v1::COMPLETED);
  EXPECT_EQ(result.step(), 30);
  EXPECT_EQ(result.validation_loss(), 1.75);
  EXPECT_EQ(result.size_parameters(), 1234);
  EXPECT_EQ(result.reason(), "all 30 steps done");
  EXPECT_THAT(result.targets(), SizeIs(0));
  ASSERT_THAT(result.pareto_front(), SizeIs(1));
  EXPECT_EQ(result.pareto_front(0).size_parameters(), 500);
}

TEST(TrainingResultTest, ASingleTargetGivesItsFigures) {
  const v1::JobSpec spec = SpecWithTargets(1);
  const TrainingSchedule schedule(&spec);
  TrainingProgress progress;
  progress.step = 50;
  progress.outcomes.push_back(Outcome(true));
  const v1::TrainingResult result = MakeTrainingResult(schedule, progress, 0);
  EXPECT_EQ(result.outcome(), v1::TARGET_MET);
  EXPECT_EQ(result.step(), 50);
  EXPECT_EQ(result.reason(),
            "both targets met: validation loss 1.2500 (target 1.5000), 900 "
            "parameters (target 1000), at step 42");
  progress.outcomes.front().met = false;
  EXPECT_THAT(MakeTrainingResult(schedule, progress, 0).reason(),
              HasSubstr("step budget spent, nearest model kept"));
}

TEST(TrainingResultTest, AListIsMetIfAllOfItAre) {
  const v1::JobSpec spec = SpecWithTargets(2);
  const TrainingSchedule schedule(&spec);
  TrainingProgress progress;
  progress.step = 54;
  progress.outcomes = {Outcome(true), Outcome(false)};
  v1::TrainingResult result = MakeTrainingResult(schedule, progress, 0);
  EXPECT_EQ(result.outcome(), v1::TARGET_MISSED);
  EXPECT_EQ(result.reason(),
            "1 of 2 targets met after 54 steps, nearest models kept");
  ASSERT_THAT(result.targets(), SizeIs(2));
  EXPECT_EQ(result.targets(0).outcome(), v1::TARGET_MET);
  EXPECT_EQ(result.targets(1).outcome(), v1::TARGET_MISSED);
  EXPECT_EQ(result.targets(1).steps(), 12);
  progress.outcomes[1].met = true;
  result = MakeTrainingResult(schedule, progress, 0);
  EXPECT_EQ(result.outcome(), v1::TARGET_MET);
  EXPECT_EQ(result.reason(), "2 of 2 targets met after 54 steps");
}

}  // namespace
}  // namespace comera::trainer
