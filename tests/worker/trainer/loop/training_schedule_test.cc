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

TEST(TrainingScheduleTest, CheckpointsComeAtIntervals) {
  const v1::JobSpec spec = EarlySpec();
  const TrainingSchedule schedule(&spec);
  EXPECT_FALSE(schedule.CheckpointDue(At(9)));
  EXPECT_TRUE(schedule.CheckpointDue(At(10)));
}

}  // namespace
}  // namespace comera::trainer
