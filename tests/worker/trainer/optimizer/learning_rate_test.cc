// Tests the learning-rate schedule.
#include "worker/trainer/optimizer/learning_rate.h"

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using v1::OptimizerSpec;

// A schedule with its warm-up, whose decay ends at `min_scale`.
OptimizerSpec Schedule(OptimizerSpec::Decay decay, int64_t warmup_steps,
                       double min_scale = 0) {
  OptimizerSpec optimizer;
  optimizer.set_decay(decay);
  optimizer.set_warmup_steps(warmup_steps);
  optimizer.set_min_scale(min_scale);
  if (decay == OptimizerSpec::WSD) optimizer.set_decay_fraction(0.2);
  return optimizer;
}

TEST(LearningRateTest, WarmsUpLinearly) {
  for (auto decay : {OptimizerSpec::NONE, OptimizerSpec::LINEAR,
                     OptimizerSpec::COSINE, OptimizerSpec::WSD}) {
    const OptimizerSpec optimizer = Schedule(decay, 4);
    EXPECT_DOUBLE_EQ(LearningRateScale(optimizer, 100, 0), 0.25);
    EXPECT_DOUBLE_EQ(LearningRateScale(optimizer, 100, 3), 1);
    EXPECT_DOUBLE_EQ(LearningRateScale(optimizer, 100, 4), 1);
  }
}

TEST(LearningRateTest, ConstantWithoutDecay) {
  const OptimizerSpec optimizer = Schedule(OptimizerSpec::NONE, 0);
  EXPECT_EQ(LearningRateScale(optimizer, 100, 0), 1);
  EXPECT_EQ(LearningRateScale(optimizer, 100, 99), 1);
}

TEST(LearningRateTest, LinearReachesZeroAtTheEnd) {
  const OptimizerSpec optimizer = Schedule(OptimizerSpec::LINEAR, 10);
  EXPECT_DOUBLE_EQ(LearningRateScale(optimizer, 110, 60), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateScale(optimizer, 110, 110), 0);
  EXPECT_GT(LearningRateScale(optimizer, 110, 109), 0);
}

TEST(LearningRateTest, CosineIsHalfWayInTheMiddle) {
  const OptimizerSpec optimizer = Schedule(OptimizerSpec::COSINE, 0);
  EXPECT_NEAR(LearningRateScale(optimizer, 100, 50), 0.5, 1e-12);
  EXPECT_NEAR(LearningRateScale(optimizer, 100, 25), 0.8535534, 1e-6);
  EXPECT_NEAR(LearningRateScale(optimizer, 100, 100), 0, 1e-12);
}

TEST(LearningRateTest, DecaysEndAtTheMinimum) {
  for (auto decay :
       {OptimizerSpec::LINEAR, OptimizerSpec::COSINE, OptimizerSpec::WSD}) {
    const OptimizerSpec optimizer = Schedule(decay, 0, 0.1);
    EXPECT_NEAR(LearningRateScale(optimizer, 100, 100), 0.1, 1e-12) << decay;
    // Steps beyond the plan keep it.
    EXPECT_NEAR(LearningRateScale(optimizer, 100, 120), 0.1, 1e-12) << decay;
  }
  EXPECT_DOUBLE_EQ(
      LearningRateScale(Schedule(OptimizerSpec::LINEAR, 0, 0.1), 100, 50),
      0.55);
}

TEST(LearningRateTest, WsdIsStableUntilItsLastPart) {
  const OptimizerSpec optimizer = Schedule(OptimizerSpec::WSD, 10);
  EXPECT_EQ(LearningRateScale(optimizer, 100, 10), 1);
  EXPECT_EQ(LearningRateScale(optimizer, 100, 80), 1);
  EXPECT_DOUBLE_EQ(LearningRateScale(optimizer, 100, 90), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateScale(optimizer, 100, 100), 0);
}

TEST(LearningRateTest, WsdWaitsForTheWarmUp) {
  OptimizerSpec optimizer = Schedule(OptimizerSpec::WSD, 20);
  optimizer.set_decay_fraction(1);
  EXPECT_EQ(LearningRateScale(optimizer, 100, 20), 1);
  EXPECT_DOUBLE_EQ(LearningRateScale(optimizer, 100, 60), 0.5);
}

TEST(LearningRateTest, WarmUpAsLongAsTheJob) {
  const OptimizerSpec optimizer = Schedule(OptimizerSpec::LINEAR, 10);
  EXPECT_DOUBLE_EQ(LearningRateScale(optimizer, 10, 9), 1);
  EXPECT_DOUBLE_EQ(LearningRateScale(optimizer, 5, 12), 1);
}

}  // namespace
}  // namespace comera::trainer
