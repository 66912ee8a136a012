// Takes the leading singular vectors of one side off the rest of a tensor.
#include "worker/trainer/model/weights/tt_remainder.h"

#include <algorithm>

#include "worker/trainer/model/weights/leading_eigenvectors.h"
#include "worker/trainer/model/weights/leading_subspace.h"

namespace comera::trainer {
namespace {

using RowMatrix = TtRemainder::RowMatrix;
using RowMatrixF =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Columns or rows of the tensor that are made double at a time.
constexpr int64_t kBlock = 4096;

// The Gram matrix gives the best subspace, a sketch a good one: it must be
// this much cheaper.
constexpr double kWorthwhile = 4;

// Whether to sketch the (side, other) unfolding, by the operations that either
// way takes, the projection included.
bool IsSketched(int64_t side, int64_t other, int64_t rank) {
  const int64_t width = RangeWidth(rank);
  if (width > side) return false;
  const double s = static_cast<double>(side), size = s * other;
  const double gram = s * size + 20 * s * s * s + 2 * size * rank;
  const double sketch = 2 * size * width * (kRangeProducts + 1);
  return kWorthwhile * sketch < gram;
}

// The leading left singular vectors (width, rank) of B = Q^T C, given B^T.
Eigen::MatrixXd Leading(const Eigen::MatrixXd& transposed, int64_t rank) {
  return LeadingEigenpairs(transposed.transpose() * transposed, rank).vectors;
}

}  // namespace

int64_t TtRemainder::size() const {
  return static_cast<int64_t>(floats_.empty() ? doubles_.size()
                                              : floats_.size());
}

double TtRemainder::SquaredNorm() const {
  double sum = 0;
  for (float x : floats_) sum += static_cast<double>(x) * x;
  for (double x : doubles_) sum += x * x;
  return sum;
}

Eigen::MatrixXd TtRemainder::SplitLeft(int64_t rows, int64_t rank) {
  // A bond that holds all that its side can.
  if (rank == rows) return Eigen::MatrixXd::Identity(rows, rows);
  const int64_t cols = size() / rows;
  if (!IsSketched(rows, cols, rank)) {
    const Eigen::MatrixXd u = LeadingEigenpairs(LeftGram(rows), rank).vectors;
    Assign(TransposedTimes(rows, u).transpose());
    return u;
  }
  const Eigen::MatrixXd basis = RangeBasis(
      {rows, cols, [&](const Eigen::MatrixXd& x) { return Times(rows, x); },
       [&](const Eigen::MatrixXd& x) { return TransposedTimes(rows, x); }},
      RangeWidth(rank));
  const Eigen::MatrixXd image = TransposedTimes(rows, basis);
  const Eigen::MatrixXd within = Leading(image, rank);
  Assign((image * within).transpose());
  return basis * within;
}

Eigen::MatrixXd TtRemainder::SplitRight(int64_t cols, int64_t rank) {
  if (rank == cols) return Eigen::MatrixXd::Identity(cols, cols);
  const int64_t rows = size() / cols;
  if (!IsSketched(cols, rows, rank)) {
    const Eigen::MatrixXd v = LeadingEigenpairs(RightGram(cols), rank).vectors;
    Assign(Times(rows, v));
    return v;
  }
  const Eigen::MatrixXd basis = RangeBasis(
      {cols, rows,
       [&](const Eigen::MatrixXd& x) { return TransposedTimes(rows, x); },
       [&](const Eigen::MatrixXd& x) { return Times(rows, x); }},
      RangeWidth(rank));
  const Eigen::MatrixXd image = Times(rows, basis);
  const Eigen::MatrixXd within = Leading(image, rank);
  Assign(image * within);
  return basis * within;
}

RowMatrix TtRemainder::Matrix(int64_t rows) const {
  RowMatrix whole(rows, size() / rows);
  EachColumns(rows, [&](int64_t first, const RowMatrix& part) {
    whole.middleCols(first, part.cols()) = part;
  });
  return whole;
}

Eigen::MatrixXd TtRemainder::LeftGram(int64_t rows) const {
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(rows, rows);
  EachColumns(rows, [&](int64_t, const RowMatrix& part) {
    gram.selfadjointView<Eigen::Lower>().rankUpdate(part);
  });
  return gram.selfadjointView<Eigen::Lower>();
}

Eigen::MatrixXd TtRemainder::RightGram(int64_t cols) const {
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(cols, cols);
  EachRows(cols, [&](int64_t, const RowMatrix& part) {
    gram.selfadjointView<Eigen::Lower>().rankUpdate(part.transpose());
  });
  return gram.selfadjointView<Eigen::Lower>();
}

Eigen::MatrixXd TtRemainder::Times(int64_t rows,
                                   const Eigen::MatrixXd& x) const {
  Eigen::MatrixXd product(rows, x.cols());
  EachRows(x.rows(), [&](int64_t first, const RowMatrix& part) {
    product.middleRows(first, part.rows()).noalias() = part * x;
  });
  return product;
}

Eigen::MatrixXd TtRemainder::TransposedTimes(int64_t rows,
                                             const Eigen::MatrixXd& x) const {
  Eigen::MatrixXd product(size() / rows, x.cols());
  EachColumns(rows, [&](int64_t first, const RowMatrix& part) {
    product.middleRows(first, part.cols()).noalias() = part.transpose() * x;
  });
  return product;
}

void TtRemainder::EachColumns(int64_t rows, const Visit& visit) const {
  const int64_t cols = size() / rows;
  for (int64_t first = 0; first < cols; first += kBlock) {
    visit(first,
          Block(rows, cols, 0, first, rows, std::min(kBlock, cols - first)));
  }
}

void TtRemainder::EachRows(int64_t cols, const Visit& visit) const {
  const int64_t rows = size() / cols;
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t count = std::min(kBlock, rows - first);
    visit(first, Block(rows, cols, first, 0, count, cols));
  }
}

RowMatrix TtRemainder::Block(int64_t rows, int64_t cols, int64_t row,
                             int64_t col, int64_t height, int64_t width) const {
  if (floats_.empty()) {
    return Eigen::Map<const RowMatrix>(doubles_.data(), rows, cols)
        .block(row, col, height, width);
  }
  return Eigen::Map<const RowMatrixF>(floats_.data(), rows, cols)
      .block(row, col, height, width)
      .cast<double>();
}

void TtRemainder::Assign(const RowMatrix& m) {
  std::vector<float>().swap(floats_);
  doubles_.assign(m.data(), m.data() + m.size());
}

}  // namespace comera::trainer
