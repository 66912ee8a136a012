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

absl::StatusOr<TtmExpansion> TtmExpansion::Create(TtmShape shape,
                                                  int64_t max_rows) {
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
  if (!expansion.joins_.empty()) {
    expansion.part_rows_ =
        expansion.factors_[expansion.joins_.back().right].rows;
    expansion.kept_size_ = expansion.factors_.back().at;
  }
  expansion.max_parts_ =
      max_rows == 0 ? expansion.parts()
                    : std::clamp<int64_t>(max_rows / expansion.part_rows_, 1,
                                          expansion.parts());
  // The rows and their gradient are the caller's; before its axes are exchanged
  // the result of a join lies in the scratch memory, and the gradients of the
  // halves behind it.
  int64_t widest =
      expansion.max_parts_ * expansion.part_rows_ * expansion.cols_;
  for (const Join& join : expansion.joins_) {
    if (&join == &expansion.joins_.back()) break;
    widest = std::max(widest, expansion.factors_[join.result].size());
  }
  if (!expansion.joins_.empty()) {
    expansion.scratch_size_ = OnLines(widest) + expansion.kept_size_;
  }
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

absl::Status TtmExpansion::CheckParts(int64_t first, int64_t count) const {
  if (first >= 0 && count >= 0 && count <= max_parts_ &&
      first + count <= parts()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("parts ", first, " to ", first + count, " of ", parts(),
                   ", at most ", max_parts_, " at a time"));
}

const float* TtmExpansion::Value(const Factor& factor, Cores cores,
                                 const float* kept) {
  return factor.core >= 0 ? cores[factor.core] : kept + factor.at;
}

float* TtmExpansion::Grad(const Factor& factor,
                          absl::Span<float* const> grad_cores,
                          float* scratch) const {
  return factor.core >= 0 ? grad_cores[factor.core]
                          : scratch + (scratch_size_ - kept_size_) + factor.at;
}

absl::Status TtmExpansion::JoinHalves(Backend* backend, Cores cores,
                                      float* kept, float* scratch) const {
  RETURN_IF_ERROR(CheckCount(cores.size()));
  for (size_t i = 0; i + 1 < joins_.size(); ++i) {
    const Factor &l = factors_[joins_[i].left], &r = factors_[joins_[i].right];
    const int64_t m = l.left * l.rows * l.cols, n = r.rows * r.cols * r.right;
    RETURN_IF_ERROR(backend->Gemm(
        false, false, 1, ConstMatrix(Value(l, cores, kept), m, l.right),
        ConstMatrix(Value(r, cores, kept), r.left, n), 0,
        Matrix(scratch, m, n)));
    RETURN_IF_ERROR(backend->SwapMiddleAxes(
        l.left * l.rows, l.cols, r.rows, r.cols * r.right, scratch,
        kept + factors_[joins_[i].result].at));
  }
  return absl::OkStatus();
}

absl::Status TtmExpansion::ExpandParts(Backend* backend, Cores cores,
                                       const float* kept, int64_t first,
                                       int64_t count, float* scratch,
                                       float* rows) const {
  RETURN_IF_ERROR(CheckCount(cores.size()));
  RETURN_IF_ERROR(CheckParts(first, count));
  if (joins_.empty()) {
    return backend->Copy(rows, cores[0] + first * cols_,
                         count * cols_ * int64_t{sizeof(float)});
  }
  const Factor &l = factors_[joins_.back().left],
               &r = factors_[joins_.back().right];
  const int64_t m = count * l.cols, n = r.rows * r.cols;
  const float* const left = Value(l, cores, kept) + first * l.cols * l.right;
  RETURN_IF_ERROR(backend->Gemm(false, false, 1, ConstMatrix(left, m, l.right),
                                ConstMatrix(Value(r, cores, kept), r.left, n),
                                0, Matrix(scratch, m, n)));
  return backend->SwapMiddleAxes(count, l.cols, r.rows, r.cols, scratch, rows);
}

absl::Status TtmExpansion::ProjectParts(Backend* backend, Cores cores,
                                        const float* kept, int64_t first,
                                        int64_t count, const float* grad_rows,
                                        absl::Span<float* const> grad_cores,
                                        float* scratch) const {
  RETURN_IF_ERROR(CheckCount(cores.size()));
  RETURN_IF_ERROR(CheckCount(grad_cores.size()));
  RETURN_IF_ERROR(CheckParts(first, count));
  if (joins_.empty()) {
    return backend->Copy(grad_cores[0] + first * cols_, grad_rows,
                         count * cols_ * int64_t{sizeof(float)});
  }
  const Factor &l = factors_[joins_.back().left],
               &r = factors_[joins_.back().right];
  const int64_t m = count * l.cols, n = r.rows * r.cols;
  const int64_t at = first * l.cols * l.right;
  RETURN_IF_ERROR(backend->SwapMiddleAxes(count, r.rows, l.cols, r.cols,
                                          grad_rows, scratch));
  const ConstMatrix swapped(scratch, m, n);
  RETURN_IF_ERROR(backend->Gemm(
      false, true, 1, swapped, ConstMatrix(Value(r, cores, kept), r.left, n), 0,
      Matrix(Grad(l, grad_cores, scratch) + at, m, l.right)));
  return backend->Gemm(true, false, 1,
                       ConstMatrix(Value(l, cores, kept) + at, m, l.right),
                       swapped, first > 0 ? 1 : 0,
                       Matrix(Grad(r, grad_cores, scratch), r.left, n));
}

absl::Status TtmExpansion::SplitHalves(Backend* backend, Cores cores,
                                       const float* kept, int64_t parts,
                                       absl::Span<float* const> grad_cores,
                                       float* scratch) const {
  RETURN_IF_ERROR(CheckCount(cores.size()));
  RETURN_IF_ERROR(CheckCount(grad_cores.size()));
  const Factor& left =
      joins_.empty() ? factors_[0] : factors_[joins_.back().left];
  const int64_t done = parts * left.cols * left.right;
  if (done < left.size()) {
    RETURN_IF_ERROR(backend->Fill(
        {Grad(left, grad_cores, scratch) + done, left.size() - done}, 0));
  }
  for (size_t i = joins_.size(); i-- > 1;) {
    const Join& join = joins_[i - 1];
    const Factor &l = factors_[join.left], &r = factors_[join.right];
    const int64_t m = l.left * l.rows * l.cols, n = r.rows * r.cols * r.right;
    RETURN_IF_ERROR(backend->SwapMiddleAxes(
        l.left * l.rows, r.rows, l.cols, r.cols * r.right,
        Grad(factors_[join.result], grad_cores, scratch), scratch));
    const ConstMatrix swapped(scratch, m, n);
    RETURN_IF_ERROR(backend->Gemm(
        false, true, 1, swapped, ConstMatrix(Value(r, cores, kept), r.left, n),
        0, Matrix(Grad(l, grad_cores, scratch), m, l.right)));
    RETURN_IF_ERROR(backend->Gemm(
        true, false, 1, ConstMatrix(Value(l, cores, kept), m, l.right), swapped,
        0, Matrix(Grad(r, grad_cores, scratch), r.left, n)));
  }
  return absl::OkStatus();
}

absl::Status TtmExpansion::Forward(Backend* backend, Cores cores, float* kept,
                                   float* scratch, float* table) const {
  RETURN_IF_ERROR(JoinHalves(backend, cores, kept, scratch));
  return ExpandParts(backend, cores, kept, 0, parts(), scratch, table);
}

absl::Status TtmExpansion::Backward(Backend* backend, Cores cores,
                                    const float* kept, const float* grad_table,
                                    absl::Span<float* const> grad_cores,
                                    float* scratch) const {
  RETURN_IF_ERROR(ProjectParts(backend, cores, kept, 0, parts(), grad_table,
                               grad_cores, scratch));
  return SplitHalves(backend, cores, kept, parts(), grad_cores, scratch);
}

}  // namespace comera::kernels
