// Truncated TT-SVD of a dense matrix or table.
#include "worker/trainer/model/weights/tt_svd.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "eigen3/Eigen/Core"
#include "eigen3/Eigen/QR"
#include "worker/trainer/model/weights/leading_eigenvectors.h"
#include "worker/trainer/model/weights/tt_remainder.h"

namespace comera::trainer {
namespace {

using RowMatrix = TtRemainder::RowMatrix;

// Singular values below this share of the largest are rounding: they are roots
// of eigenvalues of a Gram matrix.
constexpr double kRounding = 1e-7;

// Scale of the learning slices of a tensor that is all 0.
constexpr double kSurplus = 1e-2;

// Cores as matrices (r_{k-1} * n_k, r_k), all but one orthogonal; the index of
// that one.
size_t Truncate(TtRemainder& rest, const std::vector<int64_t>& modes,
                const std::vector<int64_t>& ranks,
                std::vector<RowMatrix>& cores) {
  size_t left = 0, right = modes.size() - 1;
  int64_t left_rank = 1, right_rank = 1;
  while (left < right) {
    const int64_t rows = left_rank * modes[left];
    const int64_t cols = modes[right] * right_rank;
    if (rows <= cols) {
      cores[left] = rest.SplitLeft(rows, ranks[left]);
      left_rank = ranks[left++];
    } else {
      // V^T (rank, mode * right rank) is the core's memory.
      const RowMatrix core =
          rest.SplitRight(cols, ranks[right - 1]).transpose();
      cores[right] = Eigen::Map<const RowMatrix>(
          core.data(), ranks[right - 1] * modes[right], right_rank);
      right_rank = ranks[--right];
    }
  }
  cores[left] = rest.Matrix(left_rank * modes[left]);
  return left;
}

// The core seen as (r_{k-1}, n_k * r_k).
Eigen::Map<RowMatrix> RightUnfolding(RowMatrix& core, int64_t left_rank) {
  return {core.data(), left_rank, core.size() / left_rank};
}

// All cores left of the last get orthonormal columns.
void MoveCentreToTheEnd(size_t centre, const std::vector<int64_t>& ranks,
                        std::vector<RowMatrix>& cores) {
  for (size_t k = centre; k + 1 < cores.size(); ++k) {
    const Eigen::HouseholderQR<Eigen::MatrixXd> qr(cores[k]);
    const int64_t rank = ranks[k];
    const Eigen::MatrixXd r =
        qr.matrixQR().topRows(rank).triangularView<Eigen::Upper>();
    cores[k] =
        qr.householderQ() * Eigen::MatrixXd::Identity(cores[k].rows(), rank);
    RowMatrix next = r * RightUnfolding(cores[k + 1], rank);
    cores[k + 1] = Eigen::Map<const RowMatrix>(next.data(), cores[k + 1].rows(),
                                               cores[k + 1].cols());
  }
}

// Entries that are more than rounding; they come first.
int64_t Alive(const Eigen::VectorXd& singular) {
  int64_t alive = 0;
  while (alive < singular.size() && singular[alive] > 0 &&
         singular[alive] > kRounding * singular[0]) {
    ++alive;
  }
  return alive;
}

// From orthonormal columns everywhere but in the last core, from right to
// left: with A_k the core, s and t the singular values of the bonds on its left
// and right and U_s, U_t their left vectors, the core becomes
// s^(-1/2) U_s^T A_k U_t t^(1/2).
void SplitSingularValues(const std::vector<int64_t>& ranks,
                         std::vector<RowMatrix>& cores) {
  Eigen::VectorXd t = Eigen::VectorXd::Ones(1);
  Eigen::MatrixXd u_t = Eigen::MatrixXd::Identity(1, 1);
  for (size_t k = cores.size(); k-- > 0;) {
    RowMatrix core = cores[k] * u_t;
    Eigen::VectorXd s = Eigen::VectorXd::Ones(1);
    Eigen::MatrixXd u_s = Eigen::MatrixXd::Identity(1, 1);
    if (k > 0) {
      const int64_t rank = ranks[k - 1];
      RowMatrix weighted = core * t.asDiagonal();
      const RowMatrix unfolding = RightUnfolding(weighted, rank);
      const Eigenpairs pairs =
          LeadingEigenpairs(unfolding * unfolding.transpose(), rank);
      s = pairs.values.cwiseSqrt();
      u_s = pairs.vectors;
    }
    // Surplus entries: small here, 0 in the neighbour on their right.
    const int64_t alive_t = Alive(t), alive_s = Alive(s);
    Eigen::VectorXd right = t.cwiseSqrt();
    right.tail(t.size() - alive_t)
        .setConstant(alive_t > 0 ? right[alive_t - 1] : kSurplus);
    Eigen::VectorXd left = Eigen::VectorXd::Zero(s.size());
    left.head(alive_s) = s.head(alive_s).cwiseSqrt().cwiseInverse();
    core = core * right.asDiagonal();
    const RowMatrix result =
        left.asDiagonal() * u_s.transpose() * RightUnfolding(core, s.size());
    cores[k] =
        Eigen::Map<const RowMatrix>(result.data(), core.rows(), core.cols());
    t = s;
    u_t = u_s;
  }
}

// Equal norms, the same product.
void Balance(std::vector<RowMatrix>& cores) {
  double log_sum = 0;
  for (const RowMatrix& core : cores) {
    if (core.norm() == 0) return;
    log_sum += std::log(core.norm());
  }
  const double norm = std::exp(log_sum / static_cast<double>(cores.size()));
  for (RowMatrix& core : cores) core *= norm / core.norm();
}

}  // namespace

TtCores TtSvd(std::vector<float> values, const std::vector<int64_t>& modes,
              const std::vector<int64_t>& ranks) {
  TtCores result;
  TtRemainder rest(std::move(values));
  const double squared_norm = rest.SquaredNorm();
  result.norm = std::sqrt(squared_norm);
  std::vector<RowMatrix> cores(modes.size());
  const size_t centre = Truncate(rest, modes, ranks, cores);
  // Every step was an orthogonal projection.
  result.error =
      std::sqrt(std::max(0.0, squared_norm - cores[centre].squaredNorm()));
  MoveCentreToTheEnd(centre, ranks, cores);
  SplitSingularValues(ranks, cores);
  Balance(cores);
  for (const RowMatrix& core : cores) {
    const Eigen::Map<const Eigen::VectorXd> flat(core.data(), core.size());
    const Eigen::VectorXf floats = flat.cast<float>();
    result.cores.emplace_back(floats.data(), floats.data() + floats.size());
  }
  return result;
}

}  // namespace comera::trainer
