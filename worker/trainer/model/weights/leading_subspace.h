#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_LEADING_SUBSPACE_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_LEADING_SUBSPACE_H_

#include <cstdint>
#include <functional>

#include "eigen3/Eigen/Core"

namespace comera::trainer {

// A matrix M (rows, cols) that is known by its products.
struct MatrixProducts {
  using Product = std::function<Eigen::MatrixXd(const Eigen::MatrixXd&)>;

  int64_t rows = 0;
  int64_t cols = 0;
  Product times;             // X (cols, k) to M X
  Product transposed_times;  // X (rows, k) to M^T X
};

// Columns that RangeBasis needs to find `count` leading singular vectors.
int64_t RangeWidth(int64_t count);

// Products with M that RangeBasis takes, each with as many columns.
inline constexpr int kRangeProducts = 5;

// Orthonormal columns (rows, width) close to the span of the leading left
// singular vectors of M: randomised subspace iteration (Halko, Martinsson,
// Tropp, SIAM Review 53 (2011), algorithm 4.4) of two rounds, with fixed
// numbers, so that the result is the same every time. Truncated to `count`
// vectors, the Frobenius error is that of the SVD plus about 1% where singular
// values decay like 1/sqrt(i) or faster, and plus 2% for white noise.
//
// `width` is at most both sides of M.
Eigen::MatrixXd RangeBasis(const MatrixProducts& m, int64_t width);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_LEADING_SUBSPACE_H_
