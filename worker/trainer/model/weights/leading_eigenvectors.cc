// Leading eigenvectors of a symmetric matrix.
#include "worker/trainer/model/weights/leading_eigenvectors.h"

#include "eigen3/Eigen/Eigenvalues"

namespace comera::trainer {

Eigenpairs LeadingEigenpairs(const Eigen::MatrixXd& matrix, int64_t count) {
  // Eigen sorts ascending.
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(matrix);
  return {solver.eigenvectors().rightCols(count).rowwise().reverse(),
          solver.eigenvalues().tail(count).reverse().cwiseMax(0)};
}

}  // namespace comera::trainer
