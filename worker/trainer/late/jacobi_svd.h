#ifndef COMERA_WORKER_TRAINER_LATE_JACOBI_SVD_H_
#define COMERA_WORKER_TRAINER_LATE_JACOBI_SVD_H_

#include <cstddef>
#include <vector>

namespace comera::trainer {

// Singular value decomposition of a small matrix A (rows, columns), row-major,
// by one-sided Jacobi rotations, of its R if it is tall: A = U S J^T. On return
// *a is U, whose columns are orthonormal, or 0 where the singular value is 0;
// *rotation is J (columns, columns), orthogonal. Returns the singular values,
// in no order; with fewer rows than columns some are 0. Accurate for small
// singular values too.
//
// Only +, -, *, / and square roots, so equal on every machine.
std::vector<double> JacobiSvd(size_t rows, size_t columns,
                              std::vector<double>* a,
                              std::vector<double>* rotation);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LATE_JACOBI_SVD_H_
