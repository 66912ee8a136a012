// Randomised subspace iteration for the leading singular vectors of a matrix.
#include "worker/trainer/model/weights/leading_subspace.h"

#include <algorithm>

#include "eigen3/Eigen/QR"

namespace comera::trainer {
namespace {

constexpr int kRounds = (kRangeProducts - 1) / 2;
constexpr int64_t kLeastSurplus = 16;

Eigen::MatrixXd Orthonormal(const Eigen::MatrixXd& m) {
  return Eigen::HouseholderQR<Eigen::MatrixXd>(m).householderQ() *
         Eigen::MatrixXd::Identity(m.rows(), m.cols());
}

// Any fixed matrix in general position.
Eigen::MatrixXd FixedRandom(int64_t rows, int64_t cols) {
  uint64_t state = 0x9e3779b97f4a7c15u;
  return Eigen::MatrixXd::NullaryExpr(rows, cols, [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<double>(state >> 11) * 0x1p-52 - 1;
  });
}

}  // namespace

int64_t RangeWidth(int64_t count) {
  return count + std::max(kLeastSurplus, count / 4);
}

Eigen::MatrixXd RangeBasis(const MatrixProducts& m, int64_t width) {
  Eigen::MatrixXd basis = Orthonormal(m.times(FixedRandom(m.cols, width)));
  for (int round = 0; round < kRounds; ++round) {
    // Rounding loses directions whose singular values are below 1e-8 of the
    // largest, so that one orthonormalisation a round is enough.
    basis = Orthonormal(m.times(m.transposed_times(basis)));
  }
  return basis;
}

}  // namespace comera::trainer
