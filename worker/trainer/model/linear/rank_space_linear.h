#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_RANK_SPACE_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_RANK_SPACE_LINEAR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/plan/stream_input.h"

namespace comera::trainer {

// A linear layer Y = X A B + bias seen through its two factors, A (inputs, r)
// and B (r, outputs): callers that never form Y, or never form X, work on the
// rows T = X A of the rank space instead.
//
// With T~ = [T, 1] and B~ = [B; bias], Y = T~ B~, so that the bias and its
// gradient cost no pass over Y of their own; where there is no bias the row is
// 0. Backward: U = gY B^T, gX = U A^T, gB~ = T~^T gY and gA = X^T U.
//
// A layer may have a function f between its factors, a SiLU: then T~ = [f(T),
// 1], and U is (gY B^T) f'(T), element by element. Activate and
// BackwardActivate take the step; without f they do nothing.
//
// A caller that never forms Y:
//
//   Linear& layer = ...;
//   RankSpaceLinear& up = *layer.rank_space();
//   layer.Contract(step);
//   up.Project(first, x);                    // T = X A, kept
//   up.Activate(first, rows);                // T~ = [f(T), 1]
//   ... up.TWithOnes(first, rows), up.BWithBias() ...
//   up.BeginBackward();                      // before the sums are touched
//   ... up.grad_b() += T~^T gY; u = gY B^T ...
//   up.BackwardActivate(first, u);           // u *= f'(T)
//   up.BackwardProject(x, u, grad_x, true);  // gA += X^T U, gX += U A^T
//   layer.FinishBackward(step);
//
// Likewise a caller that never forms X writes T(first, rows) itself, calls
// Activate, and adds its own part of gA to grad_a().
//
// With Plan::rows_elsewhere a layer has no T, T~ or U: only its factors and
// their gradients may be used, with Linear::Contract and FinishBackward.
class RankSpaceLinear {
 public:
  virtual int64_t rank() const = 0;
  virtual bool has_silu() const = 0;

  // The factors A (inputs, r) and B~ (r + 1, outputs), valid after
  // Linear::Contract.
  virtual kernels::ConstMatrix A() const = 0;
  virtual kernels::ConstMatrix BWithBias() const = 0;

  // T (rows, r), which may be written, and T~ (rows, r + 1), whose last column
  // is 1; both have the same stride, of r + 1 or more.
  virtual kernels::Matrix T(int64_t first_row, int64_t rows) const = 0;
  virtual kernels::ConstMatrix TWithOnes(int64_t first_row,
                                         int64_t rows) const = 0;

  // T~ = [f(T), 1] once T is written, by Project or by the caller.
  virtual absl::Status Activate(int64_t first_row, int64_t rows) = 0;
  // u *= f'(T), for callers that computed gY B^T.
  virtual absl::Status BackwardActivate(int64_t first_row,
                                        kernels::Matrix u) = 0;

  // T = X A. May run together with other operations.
  virtual absl::Status Project(int64_t first_row, kernels::ConstMatrix x) = 0;
  // Y = T~ B~.
  virtual absl::Status Expand(int64_t first_row, kernels::Matrix y) = 0;

  // B~ and its gradient with rows behind the bias that fill vectors of 16
  // bytes: those of B~ are 0, and their gradients are not used.
  virtual kernels::ConstMatrix PaddedB() const = 0;
  virtual kernels::Matrix padded_grad_b() const = 0;

  // Zeroes the sums of a backward pass, gA (inputs, r) and gB~ (r + 1,
  // outputs), which row blocks add to and Linear::FinishBackward uses up. A
  // second call before FinishBackward does nothing. The backward operations
  // below call it themselves.
  virtual absl::Status BeginBackward() = 0;
  virtual kernels::Matrix grad_a() const = 0;
  virtual kernels::Matrix grad_b() const = 0;
  // The beta of the caller's next product into gA, or into padded_grad_b, where
  // BeginBackward was not called: 0 for the first, which counts as made,
  // else 1.
  virtual float BetaOfGradA() = 0;
  virtual float BetaOfGradB() = 0;

  // gB~ += T~^T gY; U (rows, r) = (gY B^T) f'(T).
  virtual absl::Status BackwardExpand(int64_t first_row,
                                      kernels::ConstMatrix grad_y,
                                      kernels::Matrix u) = 0;
  // gA += X^T U; gX = U A^T or, if `accumulate`, gX += U A^T. A null gX is not
  // computed.
  virtual absl::Status BackwardProject(kernels::ConstMatrix x,
                                       kernels::ConstMatrix u,
                                       kernels::Matrix grad_x,
                                       bool accumulate) = 0;
  // gA += X^T U; gX += U A^T. `workspace` is what the backend asks for
  // (RankSpaceStreamWorkspaceBytes).
  virtual absl::Status BackwardProject(const StreamInput& x,
                                       kernels::ConstMatrix u,
                                       kernels::Matrix grad_x,
                                       void* workspace) = 0;

  // Workspace for a U of `rows` rows, valid until another layer's Backward.
  virtual kernels::Matrix U(int64_t rows) const = 0;

 protected:
  // The layer is owned as a Linear.
  ~RankSpaceLinear() = default;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_RANK_SPACE_LINEAR_H_
