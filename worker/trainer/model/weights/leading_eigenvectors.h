#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_LEADING_EIGENVECTORS_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_LEADING_EIGENVECTORS_H_

#include <cstdint>

#include "eigen3/Eigen/Core"

namespace comera::trainer {

// Orthonormal columns, descending eigenvalues.
struct Eigenpairs {
  Eigen::MatrixXd vectors;  // (n, count)
  Eigen::VectorXd values;   // (count), not negative
};

// The `count` leading eigenpairs of a symmetric positive semi-definite matrix,
// which is decomposed whole: about 20 n^3 operations.
Eigenpairs LeadingEigenpairs(const Eigen::MatrixXd& matrix, int64_t count);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_LEADING_EIGENVECTORS_H_
