// Tests of the schedule: the steps that a job has, and what is due after each.
#include "worker/trainer/loop/training_schedule.h"

#include "gtest/gtest.h"
#include "tests/worker/trainer/tiny_job.h"

namespace comera::trainer {
namespace {

// 30 steps early; validations and checkpoints every 10.
v1::JobSpec EarlySpec() { return TinySpec(); }

// The same, then two targets of 20 steps each.
v1::JobSpec TwoTargetSpec() {
  v1::JobSpec spec = TinySpec();
  v1::LateStage& late = *spec.mutable_objective()->mutable_late();
  for (double loss : {2.0, 1.0}) {
    v1::Target& target = *late.add_targets();
    target.set_target_loss(loss);
    target.set_target_ratio(0.5);
  }
  late.set_max_steps(20);
  return WithDefaults(spec);
}

TrainingProgress At(int64_t step, v1::Stage stage = v1::EARLY) {
  TrainingProgress progress;
  progress.step = step;
  progress.stage = stage;
  return progress;
}

TargetOutcome OutcomeAfter(int64_t steps) {
  TargetOutcome outcome;
  outcome.steps = steps;
  return outcome;
}

TEST(TrainingScheduleTest, AnEarlyStageAloneEndsWithItsSteps) {
  const v1::JobSpec spec = EarlySpec();
  const TrainingSchedule schedule(&spec);
  EXPECT_FALSE(schedule.has_late_stage());
  EXPECT_EQ(schedule.TotalSteps(At(0)), 30);
  EXPECT_EQ(schedule.LastOwnStep(), 30);
  EXPECT_FALSE(schedule.Finished(At(29)));
  EXPECT_TRUE(schedule.Finished(At(30)));
  EXPECT_FALSE(schedule.LateStageDue(At(30)));
}

TEST(TrainingScheduleTest, TheLateStageIsDueOnce) {
  const v1::JobSpec spec = TwoTargetSpec();
  const TrainingSchedule schedule(&spec);
  EXPECT_FALSE(schedule.LateStageDue(At(29)));
  EXPECT_TRUE(schedule.LateStageDue(At(30)));
  EXPECT_FALSE(schedule.LateStageDue(At(30, v1::LATE)));
}

TEST(TrainingScheduleTest, ATargetThatIsMetEarlyShortensTheJob) {
  const v1::JobSpec spec = TwoTargetSpec();
  const TrainingSchedule schedule(&spec);
  TrainingProgress progress = At(35, v1::LATE);
  EXPECT_EQ(schedule.TotalSteps(progress), 30 + 20 + 20);
  EXPECT_EQ(schedule.ApproachSteps(progress), 5);
  EXPECT_EQ(schedule.target(progress).target_loss(), 2.0);
  progress.outcomes.push_back(OutcomeAfter(5));
  EXPECT_EQ(schedule.TotalSteps(progress), 30 + 5 + 20);
  EXPECT_EQ(schedule.ApproachSteps(progress), 0);
  EXPECT_EQ(schedule.target(progress).target_loss(), 1.0);
  EXPECT_FALSE(schedule.Finished(progress));
  progress.outcomes.push_back(OutcomeAfter(20));
  EXPECT_TRUE(schedule.Finished(progress));
  // There is no other target to go on to.
  EXPECT_EQ(schedule.target(progress).target_loss(), 1.0);
}

TEST(TrainingScheduleTest, EveryApproachIsValidatedLikeTheFirst) {
  v1::JobSpec spec = TwoTargetSpec();
  spec.mutable_training()->set_validate_every_steps(7);
  const TrainingSchedule schedule(&spec);
  TrainingProgress progress = At(35, v1::LATE);
  EXPECT_TRUE(schedule.ValidationDue(progress));
  progress.step = 36;
  EXPECT_FALSE(schedule.ValidationDue(progress));
  progress.outcomes.push_back(OutcomeAfter(3));
  progress.step = 35 + 3;
  EXPECT_TRUE(schedule.ValidationDue(progress));
  // The last step of an approach, whatever the interval.
  progress.step = 30 + 3 + 20;
  EXPECT_TRUE(schedule.ValidationDue(progress));
}

TEST(TrainingScheduleTest, AnEarlyStageForOthersLeavesItsEndToThem) {
  v1::JobSpec spec = TwoTargetSpec();
  spec.mutable_objective()->mutable_early()->set_only(true);
  const TrainingSchedule schedule(&spec);
  EXPECT_FALSE(schedule.has_late_stage());
  EXPECT_EQ(schedule.TotalSteps(At(0)), 30);
  // The learning rate decays as in the jobs that go on from it.
  EXPECT_EQ(schedule.LastOwnStep(), 50);
  EXPECT_TRUE(schedule.Finished(At(30)));
  EXPECT_FALSE(schedule.ValidationDue(At(30)));
  EXPECT_TRUE(schedule.ValidationDue(At(20)));
}

TEST(TrainingScheduleTest, LabelsEndTheEarlyStage) {
  v1::JobSpec spec = TwoTargetSpec();
  spec.mutable_training()->set_max_tokens(100);
  const TrainingSchedule schedule(&spec);
  TrainingProgress progress = At(9);
  schedule.CountLabels(9, 99, &progress);
  EXPECT_EQ(progress.early_steps, -1);
  EXPECT_FALSE(schedule.LateStageDue(progress));
  progress.step = 10;
  // Its labels are not counted yet.
  EXPECT_TRUE(schedule.LabelsMayEndEarlyStage(progress));
  schedule.CountLabels(10, 1, &progress);
  EXPECT_EQ(progress.label_tokens, 100);
  EXPECT_EQ(progress.early_steps, 10);
  EXPECT_FALSE(schedule.LabelsMayEndEarlyStage(progress));
  EXPECT_TRUE(schedule.LateStageDue(progress));
  EXPECT_EQ(schedule.TotalSteps(progress), 10 + 20 + 20);
  progress.stage = v1::LATE;
  progress.step = 15;
  EXPECT_EQ(schedule.ApproachSteps(progress), 5);
  // Labels count on, and end nothing more.
  schedule.CountLabels(15, 500, &progress);
  EXPECT_EQ(progress.early_steps, 10);
  // The learning rate follows the plan, the last validation the steps.
  EXPECT_EQ(schedule.LastOwnStep(), 50);
  spec.mutable_training()->set_validate_every_steps(1000);
  progress.step = 30;
  EXPECT_TRUE(schedule.ValidationDue(progress));
  progress.step = 31;
  EXPECT_FALSE(schedule.ValidationDue(progress));
}

TEST(TrainingScheduleTest, OnlyStepsNearTheLimitMayEndTheEarlyStage) {
  v1::JobSpec spec = EarlySpec();  // batches of 8 x 8 tokens
  spec.mutable_training()->set_max_tokens(1000);
  const TrainingSchedule schedule(&spec);
  TrainingProgress progress = At(5);
  progress.label_tokens = 1000 - 64 - 1;
  EXPECT_FALSE(schedule.LabelsMayEndEarlyStage(progress));
  progress.label_tokens = 1000 - 64;
  EXPECT_TRUE(schedule.LabelsMayEndEarlyStage(progress));
  progress.stage = v1::LATE;
  EXPECT_FALSE(schedule.LabelsMayEndEarlyStage(progress));
  const v1::JobSpec unlimited = EarlySpec();
  EXPECT_FALSE(TrainingSchedule(&unlimited).LabelsMayEndEarlyStage(At(5)));
}

TEST(TrainingScheduleTest, StepsAreExpectedByTheRateOfLabels) {
  v1::JobSpec spec = TwoTargetSpec();
  spec.mutable_training()->set_max_tokens(1000);
  const TrainingSchedule schedule(&spec);
  TrainingProgress progress = At(4);
  EXPECT_EQ(schedule.ExpectedSteps(progress, 4), 30 + 40);
  progress.label_tokens = 210;
  EXPECT_EQ(schedule.ExpectedSteps(progress, 4), 20 + 40);  // 19.05
  // Fewer labels, so that the planned steps come first.
  progress.label_tokens = 100;
  EXPECT_EQ(schedule.ExpectedSteps(progress, 4), 30 + 40);
  EXPECT_EQ(schedule.TotalSteps(progress), 30 + 40);
  progress.early_steps = 17;
  EXPECT_EQ(schedule.ExpectedSteps(progress, 17), 17 + 40);
}

TEST(TrainingScheduleTest, CheckpointsComeAtIntervals) {
  const v1::JobSpec spec = EarlySpec();
  const TrainingSchedule schedule(&spec);
  EXPECT_FALSE(schedule.CheckpointDue(At(9)));
  EXPECT_TRUE(schedule.CheckpointDue(At(10)));
}

}  // namespace
}  // namespace comera::trainer
