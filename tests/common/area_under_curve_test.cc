// Compares the AUC with its definition on random data and edge cases.

#include "common/area_under_curve.h"

#include <cmath>
#include <cstdint>
#include <random>

#include "gtest/gtest.h"

namespace comera {
namespace {

// Computes the AUC by its definition, over all pairs.
double PairwiseAuc(const std::vector<float>& scores,
                   const std::vector<float>& labels) {
  double wins = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] < 0.5f || labels[j] > 0.5f) continue;
      pairs += 1;
      wins += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  return wins / pairs;
}

TEST(AreaUnderCurveTest, KnownValues) {
  EXPECT_EQ(AreaUnderCurve({1, 2, 3, 4}, {0, 0, 1, 1}), 1);
  EXPECT_EQ(AreaUnderCurve({1, 2, 3, 4}, {1, 1, 0, 0}), 0);
  EXPECT_EQ(AreaUnderCurve({7, 7, 7, 7}, {1, 0, 0, 1}), 0.5);
  EXPECT_EQ(AreaUnderCurve({1, 2, 2, 3}, {0, 1, 0, 1}), 0.875);
}

// Hanley and McNeil's formula by hand: A = 0.875 with two of each kind.
TEST(AreaUnderCurveTest, ErrorOfTheEstimate) {
  const auto estimate = AreaUnderCurveEstimate({1, 2, 2, 3}, {0, 1, 0, 1});
  ASSERT_TRUE(estimate.has_value());
  EXPECT_EQ(estimate->value, 0.875);
  const double a = 0.875, q1 = a / (2 - a), q2 = 2 * a * a / (1 + a);
  EXPECT_NEAR(estimate->error,
              std::sqrt((a * (1 - a) + q1 - a * a + q2 - a * a) / 4), 1e-12);
  EXPECT_EQ(AreaUnderCurveEstimate({1, 2}, {0, 1})->error, 0);
  EXPECT_FALSE(AreaUnderCurveEstimate({1, 2}, {1, 1}).has_value());
}

TEST(AreaUnderCurveTest, EqualsThePairwiseDefinition) {
  std::mt19937 random(4);
  for (int spread : {1, 3, 10, 1000000}) {
    std::vector<float> scores, labels;
    for (int i = 0; i < 200; ++i) {
      scores.push_back(static_cast<float>(random() % spread) - 5);
      labels.push_back(random() % 3 == 0 ? 1.0f : 0.0f);
    }
    EXPECT_NEAR(*AreaUnderCurve(scores, labels), PairwiseAuc(scores, labels),
                1e-12)
        << spread;
  }
}

TEST(AreaUnderCurveTest, NothingWithoutBothKinds) {
  EXPECT_FALSE(AreaUnderCurve({}, {}).has_value());
  EXPECT_FALSE(AreaUnderCurve({1, 2}, {1, 1}).has_value());
  EXPECT_FALSE(AreaUnderCurve({1, 2}, {0, 0}).has_value());
  EXPECT_FALSE(NormalizedEntropy(0.5, {}).has_value());
  EXPECT_FALSE(NormalizedEntropy(0.5, {1, 1}).has_value());
  EXPECT_FALSE(NormalizedEntropy(0.5, {0}).has_value());
}

TEST(NormalizedEntropyTest, ConstantPredictionOfTheRateIsOne) {
  const double rate = 0.25;
  const double loss =
      -(rate * std::log(rate) + (1 - rate) * std::log(1 - rate));
  EXPECT_NEAR(*NormalizedEntropy(loss, {0, 1, 0, 0}), 1, 1e-12);
  EXPECT_NEAR(*NormalizedEntropy(loss / 2, {0, 1, 0, 0}), 0.5, 1e-12);
}

}  // namespace
}  // namespace comera
