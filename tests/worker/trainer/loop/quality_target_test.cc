// Targets of every kind: figures, bounds, and the level that is minimised.
#include "worker/trainer/loop/quality_target.h"

#include <cmath>

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

v1::Target Accuracy(double value) {
  v1::Target target;
  target.set_target_accuracy(value);
  return target;
}

ValidationResult Figures() {
  ValidationResult validation;
  validation.step = 10;
  validation.loss = 0.5;
  validation.loss_error = 0.02;
  validation.accuracy = 0.8;
  validation.labels = 400;
  validation.f1 = Estimate{0.7, 0.03};
  validation.mcc = Estimate{0.6, 0.04};
  validation.auc = Estimate{0.9, 0.01};
  return validation;
}

constexpr double kZ95 = 1.6448536269514722;

TEST(QualityTargetTest, NormalQuantiles) {
  EXPECT_NEAR(NormalQuantile(0.5), 0, 1e-12);
  EXPECT_NEAR(NormalQuantile(0.95), kZ95, 1e-9);
  EXPECT_NEAR(NormalQuantile(0.999), 3.090232306167813, 1e-9);
}

TEST(QualityTargetTest, EveryKindHasItsFigureAndBound) {
  const ValidationResult figures = Figures();
  v1::Target target;
  const auto check = [&](const char* name, double value, double bound) {
    const QualityTarget estimate(target, 0), bounded(target, 0.95);
    EXPECT_EQ(estimate.name(), name);
    EXPECT_NEAR(estimate.ValueOf(figures), value, 1e-12) << name;
    EXPECT_EQ(estimate.BoundOf(figures), estimate.ValueOf(figures)) << name;
    EXPECT_NEAR(bounded.BoundOf(figures), bound, 1e-6) << name;
  };
  target.set_target_loss(1);
  check("loss", 0.5, 0.5 + kZ95 * 0.02);
  target.set_target_perplexity(2);
  check("perplexity", std::exp(0.5), std::exp(0.5 + kZ95 * 0.02));
  target.set_target_f1(0.5);
  check("F1", 0.7, 0.7 - kZ95 * 0.03);
  target.set_target_mcc(0.5);
  check("MCC", 0.6, 0.6 - kZ95 * 0.04);
  target.set_target_auc(0.5);
  check("AUC", 0.9, 0.9 - kZ95 * 0.01);
  // Wilson's interval of 320 out of 400.
  target.set_target_accuracy(0.5);
  check("accuracy", 0.8, 0.7651362);
}

TEST(QualityTargetTest, ABoundIsHarderToMeetThanAnEstimate) {
  const ValidationResult figures = Figures();
  EXPECT_TRUE(QualityTarget(Accuracy(0.79), 0).MetBy(figures));
  EXPECT_TRUE(QualityTarget(Accuracy(0.79), 0.95).SeemsMetBy(figures));
  EXPECT_FALSE(QualityTarget(Accuracy(0.79), 0.95).MetBy(figures));
  EXPECT_TRUE(QualityTarget(Accuracy(0.76), 0.95).MetBy(figures));
  EXPECT_FALSE(QualityTarget(Accuracy(0.81), 0).MetBy(figures));
  v1::Target loss;
  loss.set_target_loss(0.51);
  EXPECT_TRUE(QualityTarget(loss, 0).MetBy(figures));
  EXPECT_FALSE(QualityTarget(loss, 0.95).MetBy(figures));
}

// Wilson's bound of a perfect score stays below 1, the more the fewer labels.
TEST(QualityTargetTest, FewLabelsProveLittle) {
  ValidationResult figures = Figures();
  figures.accuracy = 1;
  figures.labels = 10;
  EXPECT_LT(QualityTarget(Accuracy(0.8), 0.95).BoundOf(figures), 0.8);
  figures.labels = 1000;
  EXPECT_GT(QualityTarget(Accuracy(0.8), 0.95).BoundOf(figures), 0.99);
}

TEST(QualityTargetTest, AFigureThatIsMissingMeetsNothing) {
  ValidationResult figures = Figures();
  figures.auc.reset();
  v1::Target target;
  target.set_target_auc(0.1);
  const QualityTarget quality(target, 0);
  EXPECT_TRUE(std::isnan(quality.ValueOf(figures)));
  EXPECT_FALSE(quality.SeemsMetBy(figures));
  EXPECT_FALSE(quality.MetBy(figures));
  EXPECT_EQ(quality.LevelOf(figures), 1);
}

TEST(QualityTargetTest, LevelsFallTowardsTheGoal) {
  TrainingProgress progress;
  progress.validation = Figures();
  progress.loss.Add(0.4);
  progress.validation_gap = 0.2;  // the loss has risen by 0.1 since
  const QualityTarget accuracy(Accuracy(0.9), 0);
  EXPECT_EQ(accuracy.goal(), 0);
  EXPECT_NEAR(accuracy.LevelOf(progress.validation), 0.1, 1e-12);
  EXPECT_NEAR(accuracy.EstimatedLevel(progress), 0.2, 1e-12);
  v1::Target perplexity;
  perplexity.set_target_perplexity(3);
  const QualityTarget of_loss(perplexity, 0);
  EXPECT_NEAR(of_loss.goal(), std::log(3), 1e-12);
  EXPECT_EQ(of_loss.LevelOf(progress.validation), 0.5);
  EXPECT_NEAR(of_loss.EstimatedLevel(progress), 0.6, 1e-12);
}

}  // namespace
}  // namespace comera::trainer
