// Tests taking singular vectors off a matrix, exactly and by a sketch.
#include "worker/trainer/model/weights/tt_remainder.h"

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "eigen3/Eigen/Core"
#include "eigen3/Eigen/QR"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using RowMatrix = TtRemainder::RowMatrix;

RowMatrix Noise(int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  return RowMatrix::NullaryExpr(rows, cols, [&] { return normal(random); });
}

Eigen::MatrixXd Orthonormal(int64_t rows, int64_t cols, uint32_t seed) {
  const Eigen::MatrixXd noise = Noise(rows, cols, seed);
  return Eigen::HouseholderQR<Eigen::MatrixXd>(noise).householderQ() *
         Eigen::MatrixXd::Identity(rows, cols);
}

// A matrix (rows, cols), rows <= cols, with singular values i^-power.
RowMatrix Decaying(int64_t rows, int64_t cols, double power) {
  Eigen::VectorXd singular(rows);
  for (int64_t i = 0; i < rows; ++i) {
    singular[i] = std::pow(static_cast<double>(i + 1), -power);
  }
  return Orthonormal(rows, rows, 1) * singular.asDiagonal() *
         Orthonormal(cols, rows, 2).transpose();
}

// What i^-power leaves of the norm's square beyond `rank`.
double BestError(int64_t rows, int64_t rank, double power) {
  double sum = 0;
  for (int64_t i = rank; i < rows; ++i) {
    sum += std::pow(static_cast<double>(i + 1), -2 * power);
  }
  return std::sqrt(sum);
}

std::vector<float> Floats(const RowMatrix& m) {
  const Eigen::VectorXf flat =
      Eigen::Map<const Eigen::VectorXd>(m.data(), m.size()).cast<float>();
  return {flat.data(), flat.data() + flat.size()};
}

// ||M - U U^T M|| for the vectors that SplitLeft finds, and for those that
// SplitRight finds of M^T.
std::pair<double, double> Errors(const RowMatrix& m, int64_t rank) {
  TtRemainder left(Floats(m));
  const Eigen::MatrixXd u = left.SplitLeft(m.rows(), rank);
  TtRemainder right(Floats(m.transpose()));
  const Eigen::MatrixXd v = right.SplitRight(m.rows(), rank);
  for (const Eigen::MatrixXd& basis : {u, v}) {
    EXPECT_LT(
        (basis.transpose() * basis - Eigen::MatrixXd::Identity(rank, rank))
            .norm(),
        1e-10);
  }
  EXPECT_LT((left.Matrix(rank) - u.transpose() * m).norm(), 1e-5 * m.norm());
  EXPECT_LT((right.Matrix(m.cols()) - m.transpose() * v).norm(),
            1e-5 * m.norm());
  return {(m - u * (u.transpose() * m)).norm(),
          (m - v * (v.transpose() * m)).norm()};
}

TEST(TtRemainderTest, ASketchIsWithinAPerCentOfTheSvd) {
  for (const double power : {0.5, 1.0}) {
    const RowMatrix m = Decaying(600, 640, power);
    const double best = BestError(600, 24, power);
    const auto [left, right] = Errors(m, 24);
    EXPECT_GE(left, best * (1 - 1e-6));
    EXPECT_LE(left, best * 1.01) << power;
    EXPECT_GE(right, best * (1 - 1e-6));
    EXPECT_LE(right, best * 1.01) << power;
    // A single random projection would be found out.
    EXPECT_GT(left, best * (1 + 1e-6)) << "is it a sketch at all?";
  }
}

TEST(TtRemainderTest, SmallSidesAreExact) {
  const RowMatrix m = Decaying(60, 90, 0.5);
  const double best = BestError(60, 24, 0.5);
  const auto [left, right] = Errors(m, 24);
  EXPECT_NEAR(left, best, 1e-5 * best);
  EXPECT_NEAR(right, best, 1e-5 * best);
}

TEST(TtRemainderTest, AWholeSideCostsNothing) {
  const RowMatrix m = Noise(20, 30, 5);
  const auto [left, right] = Errors(m, 20);
  EXPECT_EQ(left, 0);
  EXPECT_EQ(right, 0);
  TtRemainder rest(Floats(m));
  EXPECT_EQ(rest.SplitLeft(20, 20), Eigen::MatrixXd::Identity(20, 20));
  EXPECT_EQ(rest.Matrix(20), RowMatrix(m.cast<float>().cast<double>()));
}

TEST(TtRemainderTest, TheSameResultEveryTime) {
  const std::vector<float> values = Floats(Noise(600, 640, 7));
  TtRemainder one(values), two(values);
  EXPECT_EQ(one.SplitLeft(600, 24), two.SplitLeft(600, 24));
  EXPECT_EQ(one.Matrix(24), two.Matrix(24));
}

TEST(TtRemainderTest, ZeroAndLowRankAreFine) {
  TtRemainder zero(std::vector<float>(600 * 640));
  EXPECT_TRUE(zero.SplitLeft(600, 24).allFinite());
  EXPECT_EQ(zero.SquaredNorm(), 0);
  const RowMatrix thin = Noise(600, 8, 3) * Noise(8, 640, 4);
  const auto [left, right] = Errors(thin, 24);
  EXPECT_LT(left, 1e-6 * thin.norm());
  EXPECT_LT(right, 1e-6 * thin.norm());
}

}  // namespace
}  // namespace comera::trainer
