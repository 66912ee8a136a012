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
  outcome.validation.auc = Estimate{0.75, 0.01};
  outcome.validation.normalized_entropy = 0.9;
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

TEST(TrainingResultTest, OtherFiguresThanTheLossAreNamed) {
  v1::JobSpec spec = SpecWithTargets(1);
  v1::LateStage& late = *spec.mutable_objective()->mutable_late();
  late.mutable_targets(0)->set_target_accuracy(0.45);
  late.set_confidence(0.95);
  const TrainingSchedule schedule(&spec);
  TrainingProgress progress;
  progress.outcomes.push_back(Outcome(true));
  progress.outcomes[0].validation.labels = 10000;
  progress.outcomes[0].validation.f1 = Estimate{0.6, 0.01};
  const v1::TrainingResult result = MakeTrainingResult(schedule, progress, 0);
  EXPECT_EQ(result.reason(),
            "both targets met: validation accuracy 0.5000 (target 0.4500, 95% "
            "bound 0.4918), 900 parameters (target 1000), at step 42");
  ASSERT_THAT(result.targets(), SizeIs(1));
  EXPECT_EQ(result.targets(0).target_loss(), 0);
  EXPECT_EQ(result.targets(0).validation_quality(), 0.5);
  EXPECT_EQ(result.validation_f1(), 0.6);
  EXPECT_FALSE(result.has_validation_mcc());
  EXPECT_FALSE(result.has_test());
}

TEST(TrainingResultTest, TheTestSetStandsBesideTheRest) {
  v1::TrainingResult result;
  ValidationResult test;
  test.loss = 0.75;
  test.accuracy = 0.5;
  test.auc = Estimate{0.625, 0.1};
  SetTestResult(v1::ModelSpec(), FakeTrainingData(), test, &result);
  EXPECT_EQ(result.test().loss(), 0.75);
  EXPECT_EQ(result.test().accuracy(), 0.5);
  EXPECT_EQ(result.test().auc(), 0.625);
  EXPECT_FALSE(result.test().has_f1());
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
