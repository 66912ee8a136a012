#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_BF16_FACTORS_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_BF16_FACTORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "worker/trainer/model/linear/rank_space_linear.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Linear layers Y_i = X A_i B_i + bias_i of one input X and equally many
// outputs, as an attention's query, key and value are, whose rows are bfloat16:
// X, Y, T~ and U of RankSpaceLinear, and copies of the factors. Sums are
// float32, as are the gradients of the factors. Layers of equal ranks share
// products: one call computes the T of all, one all Y, one all U, and one, over
// the ranks of all layers, the gradient of X.
//
// The layers were made with Plan::rows_elsewhere. A step: Linear::Contract of
// all layers, Contract, then for each block of rows Project and Expand, later
// BackwardExpand and BackwardProject, then FinishBackward of the layers.
// `first` is a block's place among the rows of the step.
class Bf16Factors {
 public:
  // Numbers in 16 bytes: ranks and sizes must be multiples.
  static constexpr int64_t kVector = 8;

  // The layers outlive this. T~ is kept under the name `key`; U is workspace,
  // valid from BackwardExpand to BackwardProject.
  Bf16Factors(const Plan& plan, const std::string& key,
              std::vector<RankSpaceLinear*> layers);

  // Rounds the factors. May run together with other operations.
  absl::Status Contract();

  // T~ of all layers from x (rows, inputs).
  absl::Status Project(int64_t first, kernels::ConstBf16Matrix x);
  // Y from T~: y (rows, outputs) is that of the first layer, and layer i's lies
  // i * step elements behind it.
  absl::Status Expand(int64_t first, kernels::Bf16Matrix y, int64_t step = 0);
  // Adds the gradients of B~ and makes U, from gradients of Y that lie as those
  // do.
  absl::Status BackwardExpand(int64_t first, kernels::ConstBf16Matrix grad_y,
                              int64_t step = 0);
  // Adds the gradients of A; grad_x is set to the gradient of x or, if
  // `accumulate`, it is added to it. grad_x may be x if it is set.
  absl::Status BackwardProject(kernels::ConstBf16Matrix x,
                               kernels::Bf16Matrix grad_x, bool accumulate);

 private:
  // A layer and its columns of A, T~ and U, and its rows of B~.
  struct Part {
    RankSpaceLinear* layer;
    int64_t rank;          // columns of A and U
    int64_t padded;        // columns of T~, rows of PaddedB
    int64_t first_rank;    // its first column of A and U
    int64_t first_padded;  // its first column of T~ and row of B~
  };

  // Calls f(part, count) -> Status for products of `count` parts, the first of
  // which is `part`.
  template <typename F>
  absl::Status ForEachCall(F f) const;

  kernels::Bf16Matrix A(const Part& part) const;
  kernels::Bf16Matrix B(const Part& part) const;
  // The columns of a layer in T, before f, or in T~.
  kernels::Bf16Matrix T(SavedMemory::Piece piece, const Part& part,
                        int64_t first, int64_t rows, int64_t cols) const;
  kernels::Bf16Matrix U(const Part& part, int64_t rows) const;

  const Plan plan_;
  std::vector<Part> parts_;
  int64_t ranks_ = 0, padded_ = 0;  // sums over the layers
  const int64_t inputs_, outputs_;
  bool equal_ = true;  // ranks
  bool has_silu_ = false;
  SavedMemory::Piece a_, b_, t_;
  SavedMemory::Piece activated_;  // T~ where it is not T's memory
  Workspace::Piece u_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_BF16_FACTORS_H_
