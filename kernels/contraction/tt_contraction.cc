// Contracts X with the cores of W, group by group, forward and backward.
#include "kernels/contraction/tt_contraction.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "kernels/contraction/tt_build_order.h"

namespace comera::kernels {
namespace {

constexpr int64_t kLineFloats = 16;  // products begin on cache lines

int64_t RoundUp(int64_t floats) {
  return (floats + kLineFloats - 1) / kLineFloats * kLineFloats;
}

int64_t Modes(const TtShape& shape, int first, int last) {
  int64_t product = 1;
  for (int k = first; k < last; ++k) product *= shape.Mode(k);
  return product;
}

absl::Status CheckEnds(const TtShape& shape, const std::vector<int>& ends,
                       int64_t outputs) {
  bool ascending = !ends.empty() && ends.back() == shape.order();
  int before = 0;
  for (int end : ends) {
    ascending &= end > before;
    before = end;
  }
  if (!ascending) {
    return absl::InvalidArgumentError(
        absl::StrCat("groups end at ", absl::StrJoin(ends, ", "),
                     ": not ascending to ", shape.order()));
  }
  if (outputs < 1 || outputs > shape.Cols()) {
    return absl::InvalidArgumentError(
        absl::StrCat(outputs, " outputs of ", shape.Cols(), " columns"));
  }
  const bool cut = ends.size() > 1 && ends[ends.size() - 2] > shape.inputs();
  if (outputs < shape.Cols() && cut) {
    return absl::InvalidArgumentError(
        "with fewer outputs than columns the output modes stay together");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TtContraction> TtContraction::Create(
    TtShape shape, const std::vector<int>& ends, int64_t outputs) {
  RETURN_IF_ERROR(ValidateShape(shape));
  RETURN_IF_ERROR(CheckEnds(shape, ends, outputs));
  TtContraction made(std::move(shape));
  const TtShape& s = made.shape_;
  made.inputs_ = s.Rows();
  made.outputs_ = outputs;
  const TtBuildOrder order(s);
  int first = 0;
  for (int end : ends) {
    Group group{TtProduct(s, order, first, end)};
    const int turn = s.inputs();
    group.rows_last = end < turn;
    group.taken = s.LeftRank(first) * Modes(s, first, std::min(end, turn));
    group.added = Modes(s, std::max(first, turn), end) * s.RightRank(end - 1);
    if (group.rows_last) {
      group.others = Modes(s, end, turn);
    } else if (first > turn) {
      group.others = Modes(s, turn, first);
    }
    group.kept_offset = made.kept_size_;
    group.value_offset = made.kept_size_ + group.product.inner_size();
    made.kept_size_ = group.value_offset;
    if (!group.product.is_core()) {
      made.kept_size_ += RoundUp(group.product.size());
    }
    group.grad_offset = made.grad_group_size_;
    made.grad_group_size_ += RoundUp(group.product.size());
    if (first > 0 || group.rows_last) {
      group.state_floats = group.taken * group.others;
      group.state_offset = made.state_floats_;
      made.state_floats_ += group.state_floats;
      made.largest_state_ = std::max(made.largest_state_, group.state_floats);
    }
    made.product_workspace_ =
        std::max(made.product_workspace_, group.product.workspace_size());
    made.groups_.push_back(std::move(group));
    first = end;
  }
  return made;
}

int64_t TtContraction::workspace_size(int64_t rows) const {
  // Gradients of two neighbouring states, and one turned back.
  return std::max(product_workspace_, 3 * RoundUp(largest_state_ * rows));
}

absl::Status TtContraction::CheckOperands(ConstMatrix x, ConstMatrix y) const {
  if (x.cols != inputs_ || y.cols != outputs_ || x.rows != y.rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("x is ", x.rows, "x", x.cols, " and y ", y.rows, "x",
                     y.cols, " for a matrix of ", inputs_, "x", outputs_));
  }
  if (groups_.size() > 1 && (x.stride != x.cols || y.stride != y.cols)) {
    return absl::InvalidArgumentError("x and y must have no gaps between rows");
  }
  return absl::OkStatus();
}

ConstMatrix TtContraction::Value(const Group& group, Cores cores,
                                 const float* kept) const {
  const bool last = group.product.last() == shape_.order();
  const float* value = group.product.is_core() ? cores[group.product.first()]
                                               : kept + group.value_offset;
  return {value, group.taken,
          last && outputs_ < shape_.Cols() ? outputs_ : group.added,
          group.added};
}

absl::Status TtContraction::Build(Backend* backend, Cores cores,
                                  float* kept) const {
  for (const Group& group : groups_) {
    RETURN_IF_ERROR(group.product.Forward(
        backend, cores, kept + group.kept_offset, kept + group.value_offset));
  }
  return absl::OkStatus();
}

absl::Status TtContraction::Forward(Backend* backend, Cores cores,
                                    const float* kept, ConstMatrix x,
                                    float* states, Matrix y) const {
  RETURN_IF_ERROR(CheckOperands(x, y));
  const int64_t rows = x.rows;
  if (rows == 0) return absl::OkStatus();
  if (turned()) {
    RETURN_IF_ERROR(
        backend->SwapMiddleAxes(1, rows, inputs_, 1, x.data, states));
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    const bool last = i + 1 == groups_.size();
    const ConstMatrix value = Value(group, cores, kept);
    const float* in = states + group.state_offset * rows;
    float* out = last ? y.data : states + groups_[i + 1].state_offset * rows;
    if (group.rows_last) {
      const int64_t others = group.others * rows;
      RETURN_IF_ERROR(backend->Gemm(true, false, 1, value,
                                    ConstMatrix(in, group.taken, others), 0,
                                    Matrix(out, group.added, others)));
      continue;
    }
    const int64_t height = group.others * rows;
    const Matrix to(out, height, value.cols,
                    last && group.others == 1 ? y.stride : value.cols);
    const bool from_turned = i > 0 && groups_[i - 1].rows_last;
    const ConstMatrix from = i == 0 ? x
                             : from_turned
                                 ? ConstMatrix(in, group.taken, height)
                                 : ConstMatrix(in, height, group.taken);
    RETURN_IF_ERROR(backend->Gemm(from_turned, false, 1, from, value, 0, to));
  }
  return absl::OkStatus();
}

absl::Status TtContraction::Backward(Backend* backend, Cores cores,
                                     const float* kept, ConstMatrix x,
                                     const float* states, ConstMatrix grad_y,
                                     Matrix grad_x, bool accumulate,
                                     float* grad_groups,
                                     float* workspace) const {
  RETURN_IF_ERROR(CheckOperands(x, grad_y));
  const int64_t rows = x.rows;
  if (rows == 0) return absl::OkStatus();
  const int64_t slot = RoundUp(largest_state_ * rows);
  ConstMatrix grad = grad_y;  // the gradient of what the group made
  for (size_t i = groups_.size(); i-- > 0;) {
    const Group& group = groups_[i];
    const ConstMatrix value = Value(group, cores, kept);
    const Matrix grad_value(grad_groups + group.grad_offset, value.rows,
                            value.cols, value.stride);
    const float* in = states + group.state_offset * rows;
    float* next = workspace + static_cast<int64_t>(i % 2) * slot;
    const int64_t others = group.others * rows;
    if (group.rows_last) {
      const ConstMatrix from(in, group.taken, others);
      const ConstMatrix to(grad.data, group.added, others);
      RETURN_IF_ERROR(backend->Gemm(false, true, 1, from, to, 1, grad_value));
      if (i == 0) {
        return BackwardToX(backend, value, to, grad_x, accumulate, workspace);
      }
      const Matrix grad_in(next, group.taken, others);
      RETURN_IF_ERROR(backend->Gemm(false, false, 1, value, to, 0, grad_in));
      grad = grad_in;
      continue;
    }
    const bool last = i + 1 == groups_.size();
    const ConstMatrix to(grad.data, others, value.cols,
                         last && others == rows ? grad.stride : value.cols);
    if (i == 0) {
      RETURN_IF_ERROR(backend->Gemm(true, false, 1, x, to, 1, grad_value));
      if (grad_x.data == nullptr) return absl::OkStatus();
      return backend->Gemm(false, true, 1, to, value, accumulate ? 1 : 0,
                           grad_x);
    }
    if (groups_[i - 1].rows_last) {
      const Matrix grad_in(next, group.taken, others);
      RETURN_IF_ERROR(backend->Gemm(false, false, 1,
                                    ConstMatrix(in, group.taken, others), to, 1,
                                    grad_value));
      RETURN_IF_ERROR(backend->Gemm(false, true, 1, value, to, 0, grad_in));
      grad = grad_in;
      continue;
    }
    const Matrix grad_in(next, others, group.taken);
    RETURN_IF_ERROR(backend->Gemm(true, false, 1,
                                  ConstMatrix(in, others, group.taken), to, 1,
                                  grad_value));
    RETURN_IF_ERROR(backend->Gemm(false, true, 1, to, value, 0, grad_in));
    grad = grad_in;
  }
  return absl::OkStatus();
}

absl::Status TtContraction::BackwardToX(Backend* backend, ConstMatrix group,
                                        ConstMatrix grad, Matrix grad_x,
                                        bool accumulate,
                                        float* workspace) const {
  if (grad_x.data == nullptr) return absl::OkStatus();
  if (grad_x.cols != inputs_ || grad_x.stride != inputs_) {
    return absl::InvalidArgumentError(
        "the gradient of x must have no gaps between rows");
  }
  const int64_t rows = grad_x.rows;
  const int64_t slot = RoundUp(largest_state_ * rows);
  // grad lies in the second slot, or is that of y.
  const Matrix turned(workspace, group.rows, grad.cols);
  RETURN_IF_ERROR(backend->Gemm(false, false, 1, group, grad, 0, turned));
  float* back = accumulate ? workspace + 2 * slot : grad_x.data;
  RETURN_IF_ERROR(
      backend->SwapMiddleAxes(1, inputs_, rows, 1, turned.data, back));
  if (!accumulate) return absl::OkStatus();
  return backend->Axpy(1, {back, rows * inputs_},
                       {grad_x.data, rows * inputs_});
}

absl::Status TtContraction::FinishBackward(Backend* backend, Cores cores,
                                           const float* kept,
                                           const float* grad_groups,
                                           absl::Span<float* const> grad_cores,
                                           float* workspace) const {
  for (const Group& group : groups_) {
    RETURN_IF_ERROR(group.product.Backward(
        backend, cores, kept + group.kept_offset,
        grad_groups + group.grad_offset, grad_cores, workspace));
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
