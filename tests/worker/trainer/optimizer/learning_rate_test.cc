// Tests the learning-rate schedule.
#include "worker/trainer/optimizer/learning_rate.h"

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using v1::OptimizerSpec;

TEST(LearningRateTest, WarmsUpLinearly) {
  for (auto decay :
       {OptimizerSpec::NONE, OptimizerSpec::LINEAR, OptimizerSpec::COSINE}) {
    EXPECT_DOUBLE_EQ(LearningRateScale(decay, 4, 100, 0), 0.25);
    EXPECT_DOUBLE_EQ(LearningRateScale(decay, 4, 100, 3), 1);
    EXPECT_DOUBLE_EQ(LearningRateScale(decay, 4, 100, 4), 1);
  }
}

TEST(LearningRateTest, ConstantWithoutDecay) {
  EXPECT_EQ(LearningRateScale(OptimizerSpec::NONE, 0, 100, 0), 1);
  EXPECT_EQ(LearningRateScale(OptimizerSpec::NONE, 0, 100, 99), 1);
}

TEST(LearningRateTest, LinearReachesZeroAtTheEnd) {
  EXPECT_DOUBLE_EQ(LearningRateScale(OptimizerSpec::LINEAR, 10, 110, 60), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateScale(OptimizerSpec::LINEAR, 10, 110, 110), 0);
  EXPECT_GT(LearningRateScale(OptimizerSpec::LINEAR, 10, 110, 109), 0);
}

TEST(LearningRateTest, CosineIsHalfWayInTheMiddle) {
  EXPECT_NEAR(LearningRateScale(OptimizerSpec::COSINE, 0, 100, 50), 0.5, 1e-12);
  EXPECT_NEAR(LearningRateScale(OptimizerSpec::COSINE, 0, 100, 25), 0.8535534,
              1e-6);
  EXPECT_NEAR(LearningRateScale(OptimizerSpec::COSINE, 0, 100, 100), 0, 1e-12);
}

TEST(LearningRateTest, WarmUpAsLongAsTheJob) {
  EXPECT_DOUBLE_EQ(LearningRateScale(OptimizerSpec::LINEAR, 10, 10, 9), 1);
  EXPECT_DOUBLE_EQ(LearningRateScale(OptimizerSpec::LINEAR, 10, 5, 12), 1);
}

}  // namespace
}  // namespace comera::trainer
