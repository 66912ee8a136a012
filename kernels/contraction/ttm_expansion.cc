// Expands a tensor-train matrix by products and exchanges of axes.
#include "kernels/contraction/ttm_expansion.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::kernels {
namespace {

// Factors begin on lines of 64 bytes.
int64_t OnLines(int64_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace

absl::StatusOr<TtmExpansion> TtmExpansion::Create(TtmShape shape) {
  RETURN_IF_ERROR(ValidateShape(shape));
  TtmExpansion expansion;
  const int order = shape.order();
  for (int k = 0; k < order; ++k) {
    expansion.factors_.push_back({shape.LeftRank(k), shape.row_modes[k],
                                  shape.col_modes[k], shape.RightRank(k), k});
    expansion.rows_ *= shape.row_modes[k];
    expansion.cols_ *= shape.col_modes[k];
  }
  // The halves are about equally large.
  const int middle = (order + 1) / 2;
  int prefix = 0, suffix = order - 1;
  for (int k = 1; k < middle; ++k) prefix = expansion.AddJoin(prefix, k);
  for (int k = order - 2; k >= middle; --k) {
    suffix = expansion.AddJoin(k, suffix);
  }
  if (order > 1) expansion.AddJoin(prefix, suffix);
  // The table and its gradient are the caller's; before its axes are exchanged
  // the result of a join lies in the scratch memory, and the gradients of the
  // halves behind it.
  int64_t widest = 0;
  for (const Join& join : expansion.joins_) {
    widest = std::max(widest, expansion.factors_[join.result].size());
  }
  if (!expansion.joins_.empty()) {
    expansion.kept_size_ = expansion.factors_.back().at;
  }
  expansion.scratch_size_ = OnLines(widest) + expansion.kept_size_;
  return expansion;
}

int TtmExpansion::AddJoin(int left, int right) {
  const Factor &l = factors_[left], &r = factors_[right];
  Factor result = {l.left, l.rows * r.rows, l.cols * r.cols, r.right};
  for (const Join& join : joins_) {
    const Factor& before = factors_[join.result];
    result.at = std::max(result.at, before.at + OnLines(before.size()));
  }
  factors_.push_back(result);
  joins_.push_back({left, right, static_cast<int>(factors_.size()) - 1});
  return joins_.back().result;
}

absl::Status TtmExpansion::CheckCount(size_t cores) const {
  const size_t order = factors_.size() - joins_.size();
  if (cores == order) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(cores, " cores for order ", order));
}

absl::Status TtmExpansion::Forward(Backend* backend, Cores cores, float* kept,
                                   float* scratch, float* table) const {
  RETURN_IF_ERROR(CheckCount(cores.size()));
  if (joins_.empty()) {
    return backend->Copy(table, cores[0],
                         factors_[0].size() * int64_t{sizeof(float)});
  }
  const auto value = [&](const Factor& f) {
    return f.core >= 0 ? cores[f.core] : kept + f.at;
  };
  for (const Join& join : joins_) {
    const Factor &l = factors_[join.left], &r = factors_[join.right];
    const Factor& result = factors_[join.result];
    const int64_t m = l.left * l.rows * l.cols, n = r.rows * r.cols * r.right;
    RETURN_IF_ERROR(backend->Gemm(
        false, false, 1, ConstMatrix(value(l), m, l.right),
        ConstMatrix(value(r), r.left, n), 0, Matrix(scratch, m, n)));
    const bool last = &join == &joins_.back();
    RETURN_IF_ERROR(backend->SwapMiddleAxes(l.left * l.rows, l.cols, r.rows,
                                            r.cols * r.right, scratch,
                                            last ? table : kept + result.at));
  }
  return absl::OkStatus();
}

absl::Status TtmExpansion::Backward(Backend* backend, Cores cores,
                                    const float* kept, const float* grad_table,
                                    absl::Span<float* const> grad_cores,
                                    float* scratch) const {
  RETURN_IF_ERROR(CheckCount(cores.size()));
  RETURN_IF_ERROR(CheckCount(grad_cores.size()));
  if (joins_.empty()) {
    return backend->Copy(grad_cores[0], grad_table,
                         factors_[0].size() * int64_t{sizeof(float)});
  }
  float* const grads = scratch + (scratch_size_ - kept_size_);
  const auto value = [&](const Factor& f) {
    return f.core >= 0 ? cores[f.core] : kept + f.at;
  };
  const auto grad = [&](const Factor& f) {
    return f.core >= 0 ? grad_cores[f.core] : grads + f.at;
  };
  for (auto join = joins_.rbegin(); join != joins_.rend(); ++join) {
    const Factor &l = factors_[join->left], &r = factors_[join->right];
    const bool last = join == joins_.rbegin();
    const int64_t m = l.left * l.rows * l.cols, n = r.rows * r.cols * r.right;
    RETURN_IF_ERROR(backend->SwapMiddleAxes(
        l.left * l.rows, r.rows, l.cols, r.cols * r.right,
        last ? grad_table : grad(factors_[join->result]), scratch));
    const ConstMatrix swapped(scratch, m, n);
    RETURN_IF_ERROR(backend->Gemm(false, true, 1, swapped,
                                  ConstMatrix(value(r), r.left, n), 0,
                                  Matrix(grad(l), m, l.right)));
    RETURN_IF_ERROR(backend->Gemm(true, false, 1,
                                  ConstMatrix(value(l), m, l.right), swapped, 0,
                                  Matrix(grad(r), r.left, n)));
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
