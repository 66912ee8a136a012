#ifndef COMERA_WORKER_TRAINER_MODEL_TT_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_TT_LINEAR_H_

#include <optional>
#include <string>
#include <vector>

#include "kernels/contraction/tt_chain.h"
#include "worker/trainer/model/folded_cores.h"
#include "worker/trainer/model/layer_table.h"
#include "worker/trainer/model/linear.h"

namespace comera::trainer {

// W in tensor-train form (REFERENCE.md, "Contraction").
//
// With A (N x r) and B (r x M) the products of the input and output cores,
// T~ = [X A, 1] and B~ = [B; bias]: Y = T~ B~, so that the bias and its
// gradient cost no pass over Y of their own. Of the rows only T~ is kept.
// Backward: U = gY B^T, gX = U A^T, gB~ = T~^T gY, gA = X^T U; FinishBackward
// goes from gA and gB to the cores.
//
// With all ranks 0 the layer is gone: Y = bias, gX = 0.
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

 private:
  bool gone() const { return rank_ == 0; }
  kernels::ConstMatrix A() const;
  // B~ without or with its last row, the bias.
  kernels::Matrix B() const;
  kernels::Matrix BWithBias() const;
  float* T(int64_t first_row) const;
  absl::Status BackwardRankSpace(kernels::ConstMatrix x,
                                 kernels::ConstMatrix grad_y,
                                 kernels::Matrix grad_x, bool accumulate);

  const Plan plan_;
  const int64_t inputs_, outputs_;
  const int64_t rank_;         // of the bond between inputs and outputs
  const int64_t all_outputs_;  // product of the output modes, >= outputs_
  const int64_t max_rows_;
  const Parameter& bias_;
  FoldedCores cores_;
  std::optional<kernels::TtChain> chain_;  // unless gone
  bool ones_written_ = false;
  bool accumulating_ = false;  // gA and gB~ hold earlier row blocks
  kernels::Arena::Piece kept_, b_, t_;
  Workspace::Piece u_, grad_a_, grad_b_, all_grad_b_, chain_scratch_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_TT_LINEAR_H_
