// Tests which runs successive halving stops.
#include "server/sweep/halving_rule.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

v1::SuccessiveHalving Halving(int64_t first, int factor) {
  v1::SuccessiveHalving halving;
  halving.set_first_steps(first);
  halving.set_factor(factor);
  halving.set_metric(v1::SuccessiveHalving::LOSS);
  return halving;
}

TEST(HalvingRule, RungsAreAtPowersOfTheFactor) {
  const v1::SuccessiveHalving halving = Halving(10, 3);
  EXPECT_EQ(RungsReached(halving, 0), 0);
  EXPECT_EQ(RungsReached(halving, 9), 0);
  EXPECT_EQ(RungsReached(halving, 10), 1);
  EXPECT_EQ(RungsReached(halving, 29), 1);
  EXPECT_EQ(RungsReached(halving, 30), 2);
  EXPECT_EQ(RungsReached(halving, 90), 3);
  // 2^62 is the last power below the largest step.
  EXPECT_EQ(RungsReached(Halving(1, 2), std::numeric_limits<int64_t>::max()),
            63);
}

TEST(HalvingRule, TheBestThirdGoesOn) {
  const v1::SuccessiveHalving halving = Halving(10, 3);
  std::string why;
  // Nobody is stopped before there is a third.
  EXPECT_FALSE(IsBehind(halving, 0, 9.0, {}, &why));
  EXPECT_FALSE(IsBehind(halving, 0, 9.0, {1.0}, &why));
  EXPECT_TRUE(IsBehind(halving, 0, 2.0, {1.0, 3.0}, &why));
  EXPECT_FALSE(IsBehind(halving, 0, 0.5, {1.0, 3.0}, &why));
  EXPECT_FALSE(IsBehind(halving, 0, 2.0, {1.0, 3.0, 4.0, 5.0, 6.0}, &why));
  EXPECT_TRUE(IsBehind(halving, 0, 2.0, {1.0, 1.5, 4.0, 5.0, 6.0}, &why));
  // Equal ones are not better.
  EXPECT_FALSE(IsBehind(halving, 0, 1.0, {1.0, 1.0}, &why));
}

TEST(HalvingRule, TheReasonHasStepValueAndRank) {
  v1::SuccessiveHalving halving = Halving(10, 2);
  halving.set_metric(v1::SuccessiveHalving::ACCURACY);
  std::string why;
  ASSERT_TRUE(IsBehind(halving, 2, -0.625, {-0.75}, &why));
  EXPECT_THAT(why, HasSubstr("step 40: accuracy 0.625, better in 1 of the 1"));
}

TEST(HalvingRule, EachMetricIsReadAndHigherMayBeBetter) {
  v1::StepMetrics metrics;
  using Metric = v1::SuccessiveHalving;
  EXPECT_EQ(HalvingValue(Metric::LOSS, metrics), std::nullopt);
  metrics.set_validation_loss(2);
  metrics.set_validation_accuracy(0.5);
  metrics.set_validation_f1(0.25);
  metrics.set_validation_mcc(0.125);
  metrics.set_validation_auc(0.75);
  metrics.set_validation_perplexity(7);
  EXPECT_THAT(HalvingValue(Metric::LOSS, metrics), Optional(2));
  EXPECT_THAT(HalvingValue(Metric::ACCURACY, metrics), Optional(-0.5));
  EXPECT_THAT(HalvingValue(Metric::F1, metrics), Optional(-0.25));
  EXPECT_THAT(HalvingValue(Metric::MCC, metrics), Optional(-0.125));
  EXPECT_THAT(HalvingValue(Metric::AUC, metrics), Optional(-0.75));
  EXPECT_THAT(HalvingValue(Metric::PERPLEXITY, metrics), Optional(7));
  metrics.set_validation_loss(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(HalvingValue(Metric::LOSS, metrics), std::nullopt);
}

}  // namespace
}  // namespace comera::server
