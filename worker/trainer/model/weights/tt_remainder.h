#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_TT_REMAINDER_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_TT_REMAINDER_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "eigen3/Eigen/Core"

namespace comera::trainer {

// What is left to decompose of a tensor between the cores found from the left
// and those from the right: (left rank * mode ..., ... mode * right rank),
// row-major. The tensor itself is kept in float, what follows from it is much
// smaller and in double.
class TtRemainder {
 public:
  using RowMatrix =
      Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  explicit TtRemainder(std::vector<float> values)
      : floats_(std::move(values)) {}

  double SquaredNorm() const;

  // With C the remainder as a matrix of so many rows, at most as many as
  // columns: returns U (rows, rank), its leading left singular vectors, and
  // C becomes U^T C. They are eigenvectors of C C^T, or where that would take
  // much longer those of a sketch (leading_subspace.h).
  Eigen::MatrixXd SplitLeft(int64_t rows, int64_t rank);
  // The same of the right side: returns V (cols, rank), C becomes C V.
  Eigen::MatrixXd SplitRight(int64_t cols, int64_t rank);

  // The remainder as a matrix of so many rows.
  RowMatrix Matrix(int64_t rows) const;

 private:
  using Visit = std::function<void(int64_t first, const RowMatrix& part)>;

  int64_t size() const;
  void EachColumns(int64_t rows, const Visit& visit) const;
  void EachRows(int64_t cols, const Visit& visit) const;
  RowMatrix Block(int64_t rows, int64_t cols, int64_t row, int64_t col,
                  int64_t height, int64_t width) const;
  // C C^T and C^T C.
  Eigen::MatrixXd LeftGram(int64_t rows) const;
  Eigen::MatrixXd RightGram(int64_t cols) const;
  // C X, C^T X for C with so many rows.
  Eigen::MatrixXd Times(int64_t rows, const Eigen::MatrixXd& x) const;
  Eigen::MatrixXd TransposedTimes(int64_t rows, const Eigen::MatrixXd& x) const;
  void Assign(const RowMatrix& m);

  std::vector<float> floats_;
  std::vector<double> doubles_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_TT_REMAINDER_H_
