// F1 and Matthews correlation against hand-made values, and their errors
// against the spread of resampled data.

#include "common/classification_figures.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace comera {
namespace {

using Classes = std::vector<int32_t>;
using Figure = std::function<std::optional<Estimate>(const Classes&,
                                                     const Classes&, int32_t)>;

TEST(ClassificationFiguresTest, TwoClasses) {
  // 3 found, 1 missed, 2 false alarms, 4 right rejections.
  const Classes truths = {1, 1, 1, 1, 0, 0, 0, 0, 0, 0};
  const Classes predictions = {1, 1, 1, 0, 1, 1, 0, 0, 0, 0};
  EXPECT_NEAR(F1Score(truths, predictions, 2)->value, 6.0 / 9, 1e-12);
  EXPECT_NEAR(MatthewsCorrelation(truths, predictions, 2)->value,
              (3.0 * 4 - 2 * 1) / std::sqrt(5.0 * 4 * 6 * 5), 1e-12);
}

TEST(ClassificationFiguresTest, MoreClassesAndOneThatNeverOccurs) {
  const Classes truths = {0, 0, 1, 1, 2, 2};
  const Classes predictions = {0, 1, 1, 1, 2, 0};
  // F1 of 0: 2/4, of 1: 4/5, of 2: 2/3.
  const double mean = (0.5 + 0.8 + 2.0 / 3) / 3;
  EXPECT_NEAR(F1Score(truths, predictions, 3)->value, mean, 1e-12);
  EXPECT_NEAR(F1Score(truths, predictions, 4)->value, mean, 1e-12);
  // Gorodkin's form in counts: c s - sum p t over the root of the products.
  EXPECT_NEAR(MatthewsCorrelation(truths, predictions, 4)->value,
              (4.0 * 6 - (2 * 2 + 3 * 2 + 1 * 2)) /
                  std::sqrt((36.0 - 14) * (36.0 - 12)),
              1e-12);
}

TEST(ClassificationFiguresTest, PerfectAndDegenerate) {
  EXPECT_EQ(F1Score({0, 1, 1}, {0, 1, 1}, 2)->value, 1);
  EXPECT_EQ(MatthewsCorrelation({0, 1, 1}, {0, 1, 1}, 2)->value, 1);
  EXPECT_EQ(MatthewsCorrelation({0, 1, 1}, {1, 1, 1}, 2)->value, 0);
  EXPECT_FALSE(F1Score({0, 0}, {0, 0}, 2).has_value());
  EXPECT_FALSE(F1Score({}, {}, 2).has_value());
  EXPECT_FALSE(MatthewsCorrelation({}, {}, 2).has_value());
}

double SpreadOfResamples(const Figure& figure, const Classes& truths,
                         const Classes& predictions, int32_t classes) {
  std::mt19937 random(5);
  constexpr int kResamples = 3000;
  double sum = 0, squares = 0;
  for (int r = 0; r < kResamples; ++r) {
    Classes t, p;
    for (size_t i = 0; i < truths.size(); ++i) {
      const size_t drawn = random() % truths.size();
      t.push_back(truths[drawn]);
      p.push_back(predictions[drawn]);
    }
    const double value = figure(t, p, classes)->value;
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kResamples;
  return std::sqrt(squares / kResamples - mean * mean);
}

TEST(ClassificationFiguresTest, ErrorsAreTheSpreadOfResamples) {
  std::mt19937 random(3);
  for (const int32_t classes : {2, 3}) {
    Classes truths, predictions;
    for (int i = 0; i < 300; ++i) {
      truths.push_back(static_cast<int32_t>(random() % classes));
      predictions.push_back(random() % 10 < 6
                                ? truths.back()
                                : static_cast<int32_t>(random() % classes));
    }
    for (const Figure& figure :
         {Figure(F1Score), Figure(MatthewsCorrelation)}) {
      const double spread =
          SpreadOfResamples(figure, truths, predictions, classes);
      EXPECT_NEAR(figure(truths, predictions, classes)->error, spread,
                  0.07 * spread);
    }
  }
}

}  // namespace
}  // namespace comera
