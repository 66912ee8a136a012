// Tests leading singular vectors on both shapes of a gradient.
#include "worker/trainer/optimizer/singular_vectors.h"

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/optimizer/double_eigen.h"

namespace comera::trainer {
namespace {

using kernels::ConstMatrix;
using kernels::Matrix;

std::vector<float> Random(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& v : values) v = normal(random);
  return values;
}

class SingularVectorsTest : public ::testing::Test {
 protected:
  const std::unique_ptr<kernels::Backend> backend_ =
      kernels::CreateCpuBackend({/*threads=*/1});
};

TEST_F(SingularVectorsTest, AreThoseOfJacobi) {
  // Wide, tall, square, and longer than one block.
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {4, 9}, {9, 4}, {6, 6}, {3, 1200}, {1200, 3}, {1, 5}};
  for (const auto& [m, n] : shapes) {
    const std::vector<float> g = Random(m * n, 7);
    const int64_t side = std::min(m, n);
    const int64_t rank = std::min<int64_t>(3, side);
    const auto want =
        DoubleSingularVectors(std::vector<double>(g.begin(), g.end()), m, n);
    std::vector<float> p(side * rank, NAN);
    ASSERT_OK(LeadingSingularVectors(ConstMatrix(g.data(), m, n), rank,
                                     backend_.get(),
                                     Matrix(p.data(), side, rank)));
    for (int64_t i = 0; i < side; ++i) {
      for (int64_t k = 0; k < rank; ++k) {
        ASSERT_NEAR(p[i * rank + k], want[k][i], 1e-5)
            << m << "x" << n << ", entry " << i << " of vector " << k;
      }
    }
  }
}

TEST_F(SingularVectorsTest, AreOrthonormalWhereTheRankIsShort) {
  // Rank 2, of which four vectors are asked for.
  constexpr int64_t m = 6, n = 8, rank = 4;
  const std::vector<float> a = Random(m * 2, 1), b = Random(2 * n, 2);
  std::vector<float> g(m * n), p(m * rank);
  for (int64_t i = 0; i < m * n; ++i) {
    g[i] = a[i / n * 2] * b[i % n] + a[i / n * 2 + 1] * b[n + i % n];
  }
  ASSERT_OK(LeadingSingularVectors(ConstMatrix(g.data(), m, n), rank,
                                   backend_.get(), Matrix(p.data(), m, rank)));
  for (int64_t k = 0; k < rank; ++k) {
    for (int64_t l = 0; l < rank; ++l) {
      double product = 0;
      for (int64_t i = 0; i < m; ++i) {
        product += double{p[i * rank + k]} * p[i * rank + l];
      }
      EXPECT_NEAR(product, k == l ? 1 : 0, 1e-5) << k << ", " << l;
    }
  }
}

TEST_F(SingularVectorsTest, Refusals) {
  std::vector<float> g = Random(12, 3), p(12);
  const ConstMatrix matrix(g.data(), 3, 4);
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      LeadingSingularVectors(matrix, 4, backend_.get(), Matrix(p.data(), 3, 4)),
      refused);
  EXPECT_THAT(
      LeadingSingularVectors(matrix, 2, backend_.get(), Matrix(p.data(), 4, 2)),
      refused);
  EXPECT_THAT(
      LeadingSingularVectors(matrix, 0, backend_.get(), Matrix(p.data(), 3, 0)),
      refused);
  g[5] = INFINITY;
  EXPECT_THAT(
      LeadingSingularVectors(matrix, 2, backend_.get(), Matrix(p.data(), 3, 2)),
      refused);
}

}  // namespace
}  // namespace comera::trainer
