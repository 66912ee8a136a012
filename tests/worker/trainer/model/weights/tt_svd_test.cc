// Tests the TT-SVD's error bound and shapes.
#include "worker/trainer/model/weights/tt_svd.h"

#include <cmath>
#include <random>
#include <vector>

#include "eigen3/Eigen/Core"
#include "eigen3/Eigen/SVD"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using RowMatrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

int64_t Product(const std::vector<int64_t>& modes) {
  int64_t product = 1;
  for (int64_t mode : modes) product *= mode;
  return product;
}

std::vector<float> RandomValues(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

// The tensor that cores stand for, core by core.
std::vector<double> Contract(const std::vector<std::vector<float>>& cores,
                             const std::vector<int64_t>& modes,
                             const std::vector<int64_t>& ranks) {
  RowMatrix product = RowMatrix::Ones(1, 1);
  for (size_t k = 0; k < cores.size(); ++k) {
    const int64_t left = k == 0 ? 1 : ranks[k - 1];
    const int64_t right = k + 1 == cores.size() ? 1 : ranks[k];
    EXPECT_EQ(static_cast<int64_t>(cores[k].size()), left * modes[k] * right);
    RowMatrix core(left, modes[k] * right);
    for (int64_t i = 0; i < core.size(); ++i) core.data()[i] = cores[k][i];
    const RowMatrix next = product * core;
    product =
        Eigen::Map<const RowMatrix>(next.data(), next.size() / right, right);
  }
  return {product.data(), product.data() + product.size()};
}

double Distance(const std::vector<double>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// Squared singular values beyond `rank` of the unfolding after `count` modes.
double Tail(const std::vector<float>& values, const std::vector<int64_t>& modes,
            size_t count, int64_t rank) {
  int64_t rows = 1;
  for (size_t i = 0; i < count; ++i) rows *= modes[i];
  RowMatrix m(rows, static_cast<int64_t>(values.size()) / rows);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = values[i];
  const Eigen::VectorXd s = Eigen::BDCSVD<Eigen::MatrixXd>(m).singularValues();
  return s.tail(std::max<int64_t>(0, s.size() - rank)).squaredNorm();
}

struct Shape {
  std::vector<int64_t> modes;
  std::vector<int64_t> ranks;
  // By which share the error may exceed the bound, where a sketch takes the
  // place of the exact decomposition.
  double excess = 1e-5;
};

class TtSvdTest : public ::testing::TestWithParam<Shape> {};

TEST_P(TtSvdTest, WhatTheRanksHoldIsRecovered) {
  const auto& [modes, ranks, _] = GetParam();
  std::vector<std::vector<float>> cores;
  for (size_t k = 0; k < modes.size(); ++k) {
    const int64_t left = k == 0 ? 1 : ranks[k - 1];
    const int64_t right = k + 1 == modes.size() ? 1 : ranks[k];
    cores.push_back(RandomValues(left * modes[k] * right, 10 + k));
  }
  const std::vector<double> exact = Contract(cores, modes, ranks);
  const std::vector<float> values(exact.begin(), exact.end());
  const TtCores train = TtSvd(values, modes, ranks);
  EXPECT_NEAR(train.norm, Distance(std::vector<double>(values.size()), values),
              1e-6 * train.norm);
  EXPECT_LT(train.error, 1e-6 * train.norm);
  EXPECT_LT(Distance(Contract(train.cores, modes, ranks), values),
            1e-6 * train.norm);
}

TEST_P(TtSvdTest, TheErrorIsWithinTheBoundAndAsReported) {
  const auto& [modes, ranks, excess] = GetParam();
  const std::vector<float> values = RandomValues(Product(modes), 3);
  const TtCores train = TtSvd(values, modes, ranks);
  double bound = 0, best = 0;
  for (size_t k = 0; k < ranks.size(); ++k) {
    const double tail = Tail(values, modes, k + 1, ranks[k]);
    bound += tail;
    best = std::max(best, tail);
  }
  const double error = Distance(Contract(train.cores, modes, ranks), values);
  EXPECT_LE(error, std::sqrt(bound) * (1 + excess) + 1e-6 * train.norm);
  EXPECT_GE(error, std::sqrt(best) * (1 - 1e-5));
  EXPECT_NEAR(error, train.error, 1e-5 * train.norm);
}

TEST_P(TtSvdTest, CoresAreBalancedAndSurplusCanLearn) {
  const auto& [modes, ranks, _] = GetParam();
  const std::vector<float> values = RandomValues(Product(modes), 4);
  const TtCores train = TtSvd(values, modes, ranks);
  std::vector<double> norms;
  for (const auto& core : train.cores) {
    norms.push_back(Eigen::Map<const Eigen::VectorXf>(core.data(), core.size())
                        .cast<double>()
                        .norm());
  }
  for (double norm : norms) EXPECT_NEAR(norm, norms[0], 1e-4 * norms[0]);
  // Dropping a later entry of a bond costs no more than an earlier one.
  for (size_t k = 0; k < ranks.size(); ++k) {
    const RowMatrix left =
        Eigen::Map<const Eigen::Matrix<float, -1, -1, Eigen::RowMajor>>(
            train.cores[k].data(), train.cores[k].size() / ranks[k], ranks[k])
            .cast<double>();
    const RowMatrix right =
        Eigen::Map<const Eigen::Matrix<float, -1, -1, Eigen::RowMajor>>(
            train.cores[k + 1].data(), ranks[k],
            train.cores[k + 1].size() / ranks[k])
            .cast<double>();
    for (int64_t i = 0; i < ranks[k]; ++i) {
      EXPECT_GT(left.col(i).norm(), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, TtSvdTest,
    ::testing::Values(Shape{{6, 5}, {3}}, Shape{{4, 3, 5}, {2, 4}},
                      Shape{{3, 4, 4, 3}, {3, 5, 3}},
                      Shape{{12, 8, 8, 8, 8, 12}, {12, 20, 20, 20, 12}},
                      Shape{{1, 4, 1, 6}, {1, 3, 3}}, Shape{{1, 1}, {1}},
                      // Sides of which little is wanted, which are sketched.
                      Shape{{600, 700}, {30}, 0.02},
                      Shape{{800, 500}, {20}, 0.02}));

TEST(TtSvdTest, SingularValuesAreSplitBetweenNeighbours) {
  // diag(9, 4, 1): slices of norm 3, 2, 1 on both sides.
  const TtCores train = TtSvd({0, 9, 0, 0, 0, 4, 1, 0, 0}, {3, 3}, {3});
  for (int64_t i = 0; i < 3; ++i) {
    double left = 0, right = 0;
    for (int64_t n = 0; n < 3; ++n) {
      left += std::pow(train.cores[0][n * 3 + i], 2);
      right += std::pow(train.cores[1][i * 3 + n], 2);
    }
    EXPECT_NEAR(left, 9 - (i == 0 ? 0 : i == 1 ? 5 : 8), 1e-5);
    EXPECT_NEAR(right, left, 1e-5);
  }
}

TEST(TtSvdTest, SurplusAddsNothingButCanLearn) {
  // Rank one where two are allowed.
  const TtCores train = TtSvd({1, 2, 3, 2, 4, 6}, {2, 3}, {2});
  EXPECT_NEAR(train.cores[1][3], 0, 1e-12);
  EXPECT_NEAR(train.cores[1][4], 0, 1e-12);
  EXPECT_NEAR(train.cores[1][5], 0, 1e-12);
  EXPECT_GT(std::hypot(train.cores[0][1], train.cores[0][3]), 0.01);
  EXPECT_LT(Distance(Contract(train.cores, {2, 3}, {2}), {1, 2, 3, 2, 4, 6}),
            1e-5);
}

TEST(TtSvdTest, ZeroIsFine) {
  const TtCores train = TtSvd(std::vector<float>(24), {2, 3, 4}, {2, 4});
  EXPECT_EQ(train.error, 0);
  EXPECT_EQ(train.norm, 0);
  EXPECT_EQ(Distance(Contract(train.cores, {2, 3, 4}, {2, 4}),
                     std::vector<float>(24)),
            0);
}

}  // namespace
}  // namespace comera::trainer
