// Leading singular vectors of a gradient, computed on the host.
#include "worker/trainer/optimizer/singular_vectors.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "eigen3/Eigen/Core"
#include "eigen3/Eigen/Eigenvalues"

namespace comera::trainer {
namespace {

using Block =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Rows or columns of g that are summed up at a time.
constexpr int64_t kBlock = 512;

// g g^T (wide) or g^T g, its lower half.
absl::StatusOr<Eigen::MatrixXd> Gram(kernels::ConstMatrix g,
                                     kernels::Backend* backend) {
  const bool wide = g.rows <= g.cols;
  const int64_t side = std::min(g.rows, g.cols);
  const int64_t length = std::max(g.rows, g.cols);
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(side, side);
  Block block;
  for (int64_t first = 0; first < length; first += kBlock) {
    const int64_t count = std::min(kBlock, length - first);
    block.resize(wide ? side : count, wide ? count : side);
    for (int64_t i = 0; i < block.rows(); ++i) {
      const float* row =
          g.data + (wide ? i * g.stride + first : (first + i) * g.stride);
      RETURN_IF_ERROR(backend->CopyToHost(block.row(i).data(), row,
                                          block.cols() * sizeof(float)));
    }
    const Eigen::MatrixXd exact = block.cast<double>();
    if (wide) {
      gram.selfadjointView<Eigen::Lower>().rankUpdate(exact);
    } else {
      gram.selfadjointView<Eigen::Lower>().rankUpdate(exact.transpose());
    }
  }
  return gram;
}

}  // namespace

absl::Status LeadingSingularVectors(kernels::ConstMatrix g, int64_t rank,
                                    kernels::Backend* backend,
                                    kernels::Matrix p) {
  const int64_t side = std::min(g.rows, g.cols);
  if (rank < 1 || rank > side || p.rows != side || p.cols != rank ||
      p.stride != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("LeadingSingularVectors: ", rank, " of a ", g.rows, "x",
                     g.cols, " matrix into ", p.rows, "x", p.cols));
  }
  RETURN_IF_ERROR(backend->Synchronize());
  ASSIGN_OR_RETURN(const Eigen::MatrixXd gram, Gram(g, backend));
  if (!gram.allFinite()) {
    return absl::InvalidArgumentError(
        "LeadingSingularVectors: the matrix is not finite");
  }
  // Reads the lower half; eigenvalues ascend.
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram);
  if (solver.info() != Eigen::Success) {
    return absl::InternalError(
        "LeadingSingularVectors: the eigenvalues did not converge");
  }
  std::vector<float> vectors(side * rank);
  for (int64_t k = 0; k < rank; ++k) {
    const auto vector = solver.eigenvectors().col(side - 1 - k);
    Eigen::Index largest = 0;
    vector.cwiseAbs().maxCoeff(&largest);
    const double sign = vector[largest] < 0 ? -1 : 1;
    for (int64_t i = 0; i < side; ++i) {
      vectors[i * rank + k] = static_cast<float>(sign * vector[i]);
    }
  }
  return backend->CopyToDevice(
      p.data, vectors.data(),
      static_cast<int64_t>(vectors.size() * sizeof(float)));
}

}  // namespace comera::trainer
