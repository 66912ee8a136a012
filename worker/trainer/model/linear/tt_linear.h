#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_TT_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_TT_LINEAR_H_

#include <optional>
#include <string>
#include <vector>

#include "kernels/contraction/tt_chain.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/linear/folded_cores.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/plan/stream_input.h"

namespace comera::trainer {

// W in tensor-train form (REFERENCE.md, "Contraction").
//
// With A (N x r) and B (r x M) the products of the input and output cores,
// T~ = [X A, 1] and B~ = [B; bias]: Y = T~ B~, so that the bias and its
// gradient cost no pass over Y of their own. Of the rows only T~ is kept.
// Backward: U = gY B^T, gX = U A^T, gB~ = T~^T gY, gA = X^T U; FinishBackward
// goes from gA and gB to the cores.
//
// Rank space: a block that never forms Y (or X) takes the four halves apart.
//
//   up->Project(first, x);                    // T = X A, kept
//   ... Y never formed: up->T(first, rows), up->BWithBias() ...
//   up->BeginBackward();                      // before touching the sums
//   ... up->grad_b() += T~^T gY; u = gY B^T ...
//   up->BackwardProject(x, u, grad_x, true);  // gA += X^T U, gX += U A^T
//   up->FinishBackward(step);
//
// Likewise a block that never forms X writes T(first, rows) itself, and adds
// to grad_a() what it has.
//
// No rank is 0: such a layer is a GoneLinear.
class TtLinear : public Linear {
 public:
  TtLinear(const Plan& plan, const FactorisableLayer& layer,
           const Factorisation& factorisation, int64_t max_rows,
           const std::string& scratch);

  bool repeats_cheaply() const override { return true; }
  absl::Status Prepare(const Step& step) override;
  absl::Status Forward(const Step& step, int64_t first_row,
                       kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Repeat(const Step& step, int64_t first_row,
                      kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Backward(const Step& step, int64_t first_row,
                        kernels::ConstMatrix x, kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x, bool accumulate) override;
  absl::Status FinishBackward(const Step& step) override;
  TtLinear* rank_space() override { return this; }

  // --- rank space ----------------------------------------------------------
  int64_t rank() const { return rank_; }
  // After Prepare: A (inputs, r), B (r, outputs) and B~ (r + 1, outputs).
  kernels::ConstMatrix A() const;
  kernels::ConstMatrix B() const;
  kernels::ConstMatrix BWithBias() const;
  // T (rows, r), to write, and T~ (rows, r + 1), whose last column is 1 from
  // Prepare on; both with stride r + 1.
  kernels::Matrix T(int64_t first_row, int64_t rows) const;
  kernels::ConstMatrix TWithOnes(int64_t first_row, int64_t rows) const;

  // T = X A.
  absl::Status Project(int64_t first_row, kernels::ConstMatrix x);
  // Y = T~ B~.
  absl::Status Expand(int64_t first_row, kernels::Matrix y);

  // The sums of a Backward, gA (inputs, r) and gB~ (r + 1, outputs), which row
  // blocks add to (+=) and FinishBackward takes. BeginBackward zeroes them; it
  // does nothing when called again before FinishBackward. The operations below
  // call it themselves.
  absl::Status BeginBackward();
  kernels::Matrix grad_a() const;
  kernels::Matrix grad_b() const;
  // gB~ += T~^T gY; U (rows, r) = gY B^T.
  absl::Status BackwardExpand(int64_t first_row, kernels::ConstMatrix grad_y,
                              kernels::Matrix u);
  // gA += X^T U; gX = or, if `accumulate`, += U A^T; a null gX is not wanted.
  absl::Status BackwardProject(kernels::ConstMatrix x, kernels::ConstMatrix u,
                               kernels::Matrix grad_x, bool accumulate);
  // gA += X^T U, gX += U A^T.
  absl::Status BackwardProject(const StreamInput& x, kernels::ConstMatrix u,
                               kernels::Matrix grad_x);
  // Workspace for U of `rows`, until another layer's Backward.
  kernels::Matrix U(int64_t rows) const;

 private:
  // From the cores to A and B~, and from gA and gB~ to the cores.
  absl::Status Contract(const Step& step);
  absl::Status BackwardToCores(const Step& step);

  const Plan plan_;
  const int64_t inputs_, outputs_;
  const int64_t rank_;         // of the bond between inputs and outputs
  const int64_t all_outputs_;  // product of the output modes, >= outputs_
  const int64_t max_rows_;
  const Parameter& bias_;
  FoldedCores cores_;
  std::optional<kernels::TtChain> chain_;
  bool accumulating_ = false;  // gA and gB~ were zeroed for this Backward
  SavedMemory::Piece kept_, b_, t_;
  Workspace::Piece u_, grad_a_, grad_b_, all_grad_b_, chain_scratch_, tiles_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_TT_LINEAR_H_
