// Leading eigenvectors of a symmetric matrix.
#include "worker/trainer/model/weights/leading_eigenvectors.h"

#include <algorithm>

#include "eigen3/Eigen/Eigenvalues"
#include "eigen3/Eigen/QR"

namespace comera::trainer {
namespace {

// Side up to which decomposing the whole takes about a second at most.
constexpr int64_t kWholeSide = 512;
constexpr int kMaxIterations = 100;
constexpr double kTolerance = 1e-10;

// Eigen sorts ascending.
Eigenpairs Leading(const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>& solver,
                   int64_t count) {
  return {solver.eigenvectors().rightCols(count).rowwise().reverse(),
          solver.eigenvalues().tail(count).reverse().cwiseMax(0)};
}

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

Eigenpairs LeadingEigenpairs(const Eigen::MatrixXd& matrix, int64_t count) {
  const int64_t side = matrix.rows();
  // More columns than wanted: the subspace converges with the ratio of the
  // first eigenvalue outside it to the last one wanted.
  const int64_t block = count + std::max<int64_t>(16, count / 2);
  if (side <= kWholeSide || 3 * block > side) {
    return Leading(Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(matrix),
                   count);
  }
  const double trace = matrix.trace();
  Eigen::MatrixXd basis = Orthonormal(FixedRandom(side, block));
  double captured = -1;
  for (int i = 0;; ++i) {
    const Eigen::MatrixXd image =
        matrix.selfadjointView<Eigen::Lower>() * basis;
    const Eigenpairs ritz =
        Leading(Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(
                    basis.transpose() * image),
                count);
    const double now = ritz.values.sum();
    if (now - captured <= kTolerance * trace || i + 1 == kMaxIterations) {
      return {basis * ritz.vectors, ritz.values};
    }
    captured = now;
    basis = Orthonormal(image);
  }
}

}  // namespace comera::trainer
