#include "kernels/contraction/ttm_tables.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::kernels {
namespace {

constexpr int64_t kLineFloats = 16;  // tables begin on cache lines

int64_t RoundUp(int64_t floats) {
  return (floats + kLineFloats - 1) / kLineFloats * kLineFloats;
}

absl::Status CheckCount(const TtmShape& shape, size_t cores) {
  if (static_cast<int>(cores) == shape.order()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(cores, " cores for order ", shape.order()));
}

}  // namespace

absl::StatusOr<TtmTableChain> TtmTableChain::Create(TtmShape shape) {
  RETURN_IF_ERROR(ValidateShape(shape));
  return TtmTableChain(std::move(shape));
}

TtmTableChain::TtmTableChain(TtmShape shape)
    : shape_(std::move(shape)), steps_(shape_.order()) {
  const auto& m = shape_.row_modes;
  const auto& n = shape_.col_modes;
  const int order = shape_.order();
  const auto keep = [&](int core, int64_t rank) {
    Step& step = steps_[core];
    step.offset = kept_size_;
    const int64_t size =
        RoundUp(step.rows * m[core] * step.cols * n[core] * rank);
    kept_size_ += size;
    largest_ = std::max(largest_, size);
  };
  for (int k = 1; k < split(); ++k) {
    steps_[k].rows = steps_[k - 1].rows * m[k - 1];
    steps_[k].cols = steps_[k - 1].cols * n[k - 1];
    keep(k, shape_.RightRank(k));
  }
  for (int k = order - 2; k >= split(); --k) {
    steps_[k].rows = steps_[k + 1].rows * m[k + 1];
    steps_[k].cols = steps_[k + 1].cols * n[k + 1];
    keep(k, shape_.LeftRank(k));
  }
  const int before = split() - 1;
  tables_.prefix_rows = steps_[before].rows * m[before];
  tables_.prefix_cols = steps_[before].cols * n[before];
  tables_.suffix_rows = steps_[split()].rows * m[split()];
  tables_.suffix_cols = steps_[split()].cols * n[split()];
  tables_.rank = shape_.LeftRank(split());
}

const float* TtmTableChain::Table(Cores cores, const float* kept,
                                  int core) const {
  const bool itself = core == 0 || core == shape_.order() - 1;
  return itself ? cores[core] : kept + steps_[core].offset;
}

const float* TtmTableChain::Prefix(Cores cores, const float* kept) const {
  return Table(cores, kept, split() - 1);
}

const float* TtmTableChain::Suffix(Cores cores, const float* kept) const {
  return Table(cores, kept, split());
}

absl::Status TtmTableChain::Forward(Backend* backend, Cores cores, float* kept,
                                    float* workspace) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  for (int k = 1; k < split(); ++k) {
    const Step& step = steps_[k];
    const int64_t m = shape_.row_modes[k], n = shape_.col_modes[k];
    const int64_t left = shape_.LeftRank(k), right = shape_.RightRank(k);
    RETURN_IF_ERROR(backend->Gemm(
        false, false, 1,
        ConstMatrix(Table(cores, kept, k - 1), step.rows * step.cols, left),
        ConstMatrix(cores[k], left, m * n * right), 0,
        Matrix(workspace, step.rows * step.cols, m * n * right)));
    RETURN_IF_ERROR(backend->SwapMiddleAxes(step.rows, step.cols, m, n * right,
                                            workspace, kept + step.offset));
  }
  for (int k = shape_.order() - 2; k >= split(); --k) {
    const Step& step = steps_[k];
    const int64_t m = shape_.row_modes[k], n = shape_.col_modes[k];
    const int64_t left = shape_.LeftRank(k), right = shape_.RightRank(k);
    RETURN_IF_ERROR(backend->Gemm(
        false, false, 1, ConstMatrix(cores[k], left * m * n, right),
        ConstMatrix(Table(cores, kept, k + 1), right, step.rows * step.cols), 0,
        Matrix(workspace, left * m * n, step.rows * step.cols)));
    RETURN_IF_ERROR(backend->SwapMiddleAxes(left * m, n, step.rows, step.cols,
                                            workspace, kept + step.offset));
  }
  return absl::OkStatus();
}

absl::Status TtmTableChain::Backward(Backend* backend, Cores cores,
                                     const float* kept,
                                     const float* grad_prefix,
                                     const float* grad_suffix,
                                     absl::Span<float* const> grad_cores,
                                     float* workspace) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  RETURN_IF_ERROR(CheckCount(shape_, grad_cores.size()));
  RETURN_IF_ERROR(
      PrefixBackward(backend, cores, kept, grad_prefix, grad_cores, workspace));
  return SuffixBackward(backend, cores, kept, grad_suffix, grad_cores,
                        workspace);
}

// Half of the workspace takes the gradient with its axes swapped back, the
// other half the gradient of the table before.
absl::Status TtmTableChain::PrefixBackward(Backend* backend, Cores cores,
                                           const float* kept, const float* grad,
                                           absl::Span<float* const> grad_cores,
                                           float* workspace) const {
  float* const previous = workspace + largest_;
  for (int k = split() - 1; k > 0; --k) {
    const Step& step = steps_[k];
    const int64_t m = shape_.row_modes[k], n = shape_.col_modes[k];
    const int64_t left = shape_.LeftRank(k), right = shape_.RightRank(k);
    RETURN_IF_ERROR(backend->SwapMiddleAxes(step.rows, m, step.cols, n * right,
                                            grad, workspace));
    const ConstMatrix product(workspace, step.rows * step.cols, m * n * right);
    RETURN_IF_ERROR(backend->Gemm(
        true, false, 1,
        ConstMatrix(Table(cores, kept, k - 1), step.rows * step.cols, left),
        product, 0, Matrix(grad_cores[k], left, m * n * right)));
    float* next = k == 1 ? grad_cores[0] : previous;
    RETURN_IF_ERROR(backend->Gemm(false, true, 1, product,
                                  ConstMatrix(cores[k], left, m * n * right), 0,
                                  Matrix(next, step.rows * step.cols, left)));
    grad = next;
  }
  if (split() > 1) return absl::OkStatus();
  return backend->Copy(grad_cores[0], grad, shape_.CoreSize(0) * sizeof(float));
}

absl::Status TtmTableChain::SuffixBackward(Backend* backend, Cores cores,
                                           const float* kept, const float* grad,
                                           absl::Span<float* const> grad_cores,
                                           float* workspace) const {
  float* const previous = workspace + largest_;
  const int last = shape_.order() - 1;
  for (int k = split(); k < last; ++k) {
    const Step& step = steps_[k];
    const int64_t m = shape_.row_modes[k], n = shape_.col_modes[k];
    const int64_t left = shape_.LeftRank(k), right = shape_.RightRank(k);
    RETURN_IF_ERROR(backend->SwapMiddleAxes(left * m, step.rows, n, step.cols,
                                            grad, workspace));
    const ConstMatrix product(workspace, left * m * n, step.rows * step.cols);
    RETURN_IF_ERROR(backend->Gemm(
        false, true, 1, product,
        ConstMatrix(Table(cores, kept, k + 1), right, step.rows * step.cols), 0,
        Matrix(grad_cores[k], left * m * n, right)));
    float* next = k == last - 1 ? grad_cores[last] : previous;
    RETURN_IF_ERROR(backend->Gemm(
        true, false, 1, ConstMatrix(cores[k], left * m * n, right), product, 0,
        Matrix(next, right, step.rows * step.cols)));
    grad = next;
  }
  if (split() < last) return absl::OkStatus();
  return backend->Copy(grad_cores[last], grad,
                       shape_.CoreSize(last) * sizeof(float));
}

}  // namespace comera::kernels
