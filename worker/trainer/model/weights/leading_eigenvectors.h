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

// The `count` leading eigenpairs of a symmetric positive semi-definite matrix.
// A small one is decomposed whole. A large one of which little is wanted goes
// through subspace iteration with Rayleigh-Ritz, until what the subspace
// captures of the trace stands still to 1e-10 of it: where eigenvalues lie so
// close that vectors have not settled, those found capture as much. The same
// result every time.
Eigenpairs LeadingEigenpairs(const Eigen::MatrixXd& matrix, int64_t count);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_LEADING_EIGENVECTORS_H_
