// Y = X W through any grouping of the cores of W, forward and backward.
#ifndef COMERA_KERNELS_CONTRACTION_TT_CONTRACTION_H_
#define COMERA_KERNELS_CONTRACTION_TT_CONTRACTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/contraction/tt_product.h"
#include "kernels/contraction/tt_shape.h"

namespace comera::kernels {

// The cores are cut into groups of neighbours. Each group is contracted once
// per step (TtProduct); X then absorbs the groups from left to right, one GEMM
// each. `ends` are the ends of the groups, ascending up to order():
// {inputs(), order()} is T = X A, Y = T B; {order()} applies the dense matrix;
// {1, 2, ..., order()} goes core by core. Cost: cost_model.h.
//
// While input modes are left, rows are the last axis (X is turned once), so
// that every product is one GEMM on what lies in memory:
//   (r0 n x rest rows) -> (r1 x rest rows)
// and from the group that takes the last input mode on they are the first:
//   (rows modes x r0) -> (rows modes x m r1).
// Backward walks the same products in reverse, two GEMMs each.
//
// Immutable; thread-safe. Memory is the caller's. A step:
//   Build(kept); then per block of rows Forward, later Backward, which adds to
//   the gradients of the groups; FinishBackward takes those to the cores.
// `kept` holds kept_size() floats from Build on; `states` of a block
// state_size(rows) floats from Forward to Backward; `grad_groups`
// grad_group_size() floats, zero before the first Backward; `workspace` is
// free between calls.
class TtContraction {
 public:
  using Cores = absl::Span<const float* const>;

  // Only the first `outputs` columns of W are wanted. InvalidArgument: shape,
  // ends; or outputs < Cols() with the output modes in two groups.
  static absl::StatusOr<TtContraction> Create(TtShape shape,
                                              const std::vector<int>& ends,
                                              int64_t outputs);

  const TtShape& shape() const { return shape_; }
  int64_t kept_size() const { return kept_size_; }
  int64_t state_size(int64_t rows) const { return state_floats_ * rows; }
  int64_t grad_group_size() const { return grad_group_size_; }
  int64_t workspace_size(int64_t rows) const;
  int64_t product_workspace_size() const { return product_workspace_; }

  absl::Status Build(Backend* backend, Cores cores, float* kept) const;
  // x (rows, inputs), y (rows, outputs); both without gaps between rows unless
  // there is one group.
  absl::Status Forward(Backend* backend, Cores cores, const float* kept,
                       ConstMatrix x, float* states, Matrix y) const;
  // grad_x = or, if `accumulate`, += gradient; a null grad_x is not wanted.
  absl::Status Backward(Backend* backend, Cores cores, const float* kept,
                        ConstMatrix x, const float* states, ConstMatrix grad_y,
                        Matrix grad_x, bool accumulate, float* grad_groups,
                        float* workspace) const;
  // Writes (=) the gradients of all cores.
  absl::Status FinishBackward(Backend* backend, Cores cores, const float* kept,
                              const float* grad_groups,
                              absl::Span<float* const> grad_cores,
                              float* workspace) const;

 private:
  struct Group {
    TtProduct product;
    // Places of the group's inner products, of its own and of its gradient.
    int64_t kept_offset = 0, value_offset = 0, grad_offset = 0;
    // The group as a matrix takes `taken` away from a state and adds `added`.
    int64_t taken = 0, added = 0;
    // The part of the state it meets that is not taken away.
    int64_t others = 1;
    bool rows_last = false;  // whether rows are the last axis of its result
    // Floats per row, and place, of the state that it meets; 0: x itself.
    int64_t state_floats = 0, state_offset = 0;
  };
  explicit TtContraction(TtShape shape) : shape_(std::move(shape)) {}

  absl::Status CheckOperands(ConstMatrix x, ConstMatrix y) const;
  // The group's product; the last group only the wanted columns.
  ConstMatrix Value(const Group& group, Cores cores, const float* kept) const;
  bool turned() const { return groups_[0].rows_last; }
  absl::Status BackwardToX(Backend* backend, ConstMatrix group,
                           ConstMatrix grad, Matrix grad_x, bool accumulate,
                           float* workspace) const;

  TtShape shape_;
  int64_t inputs_ = 0, outputs_ = 0;
  std::vector<Group> groups_;
  int64_t kept_size_ = 0, grad_group_size_ = 0, state_floats_ = 0;
  int64_t largest_state_ = 0;  // floats per row
  int64_t product_workspace_ = 0;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_TT_CONTRACTION_H_
