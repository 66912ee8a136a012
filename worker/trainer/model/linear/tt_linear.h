#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_TT_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_TT_LINEAR_H_

#include <optional>
#include <string>
#include <vector>

#include "kernels/contraction/tt_chain.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/linear/folded_cores.h"
#include "worker/trainer/model/linear/layer_bias.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/linear/rank_space_linear.h"
#include "worker/trainer/model/plan/stream_input.h"

namespace comera::trainer {

// W in tensor-train form (REFERENCE.md, "Contraction"), contracted to the
// products A (inputs, r) of its input cores and B (r, outputs) of its output
// cores. Of the rows only T~ = [X A, 1] is kept; FinishBackward goes from the
// gradients of A and B to those of the cores. With Factorisation::silu,
// Y = SiLU(X A) B + bias, and X A is kept beside T~ = [SiLU(X A), 1].
//
// No rank is 0: such a layer is a PrunedLinear.
class TtLinear : public Linear, public RankSpaceLinear {
 public:
  TtLinear(const Plan& plan, const FactorisableLayer& layer,
           const Factorisation& factorisation, int64_t max_rows,
           const std::string& scratch);

  bool repeats_cheaply() const override { return true; }
  absl::Status Contract(const Step& step) override;
  absl::Status Forward(const Step& step, int64_t first_row,
                       kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Repeat(const Step& step, int64_t first_row,
                      kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Backward(const Step& step, int64_t first_row,
                        kernels::ConstMatrix x, kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x, bool accumulate) override;
  absl::Status FinishBackward(const Step& step) override;
  RankSpaceLinear* rank_space() override { return this; }

  // The rank of the factors of a layer whose middle bond has rank `bond`.
  static int64_t FactorRank(const kernels::Backend& backend, int64_t bond);

  int64_t rank() const override { return rank_; }
  bool has_silu() const override { return silu_; }
  kernels::ConstMatrix A() const override;
  kernels::ConstMatrix BWithBias() const override;
  kernels::Matrix T(int64_t first_row, int64_t rows) const override;
  kernels::ConstMatrix TWithOnes(int64_t first_row,
                                 int64_t rows) const override;
  absl::Status Activate(int64_t first_row, int64_t rows) override;
  absl::Status BackwardActivate(int64_t first_row, kernels::Matrix u) override;
  absl::Status Project(int64_t first_row, kernels::ConstMatrix x) override;
  absl::Status Expand(int64_t first_row, kernels::Matrix y) override;
  kernels::ConstMatrix PaddedB() const override;
  kernels::Matrix padded_grad_b() const override;
  absl::Status BeginBackward() override;
  kernels::Matrix grad_a() const override;
  kernels::Matrix grad_b() const override;
  float BetaOfGradA() override;
  float BetaOfGradB() override;
  absl::Status BackwardExpand(int64_t first_row, kernels::ConstMatrix grad_y,
                              kernels::Matrix u) override;
  absl::Status BackwardProject(kernels::ConstMatrix x, kernels::ConstMatrix u,
                               kernels::Matrix grad_x,
                               bool accumulate) override;
  absl::Status BackwardProject(const StreamInput& x, kernels::ConstMatrix u,
                               kernels::Matrix grad_x,
                               void* workspace) override;
  kernels::Matrix U(int64_t rows) const override;

 private:
  kernels::ConstMatrix B() const;
  // T~ with the columns that multiply PaddedB.
  kernels::ConstMatrix PaddedT(int64_t first_row, int64_t rows) const;
  // Rows of a piece, at their stride.
  kernels::Matrix Rows(SavedMemory::Piece piece, int64_t first_row,
                       int64_t rows) const;
  // Memory of what lasts through all phases.
  SavedMemory& whole() const { return *plan_.memory->whole(); }
  // Computes A and B~ from the cores.
  absl::Status ToFactors(const Step& step);
  // Whether A, or B, lies as the chain makes it: without padding.
  bool a_is_whole() const { return rank_ == bond_; }
  bool b_is_whole() const { return a_is_whole() && all_outputs_ == outputs_; }
  float* Contraction(Workspace::Piece piece) const {
    return plan_.memory->contraction()->Floats(piece);
  }
  // Adds the cores' gradients, computed from gA and gB~.
  absl::Status BackwardToCores(const Step& step);

  const Plan plan_;
  const int64_t inputs_, outputs_;
  const int64_t bond_;  // rank of the bond between inputs and outputs
  // Columns of A and rows of B: the same, or filled up with zeros where a
  // device's fast products want sizes that fill vectors of 16 bytes.
  const int64_t rank_;
  const int64_t all_outputs_;  // product of the output modes, >= outputs_
  const int64_t stride_;  // between the rows of T, and of T~
  // Columns of T~ in products: rank + 1, or stride_ on a device, whose fast
  // products want sizes that fill vectors of 16 bytes.
  const int64_t padded_;
  const bool silu_;  // f is SiLU; else there is none
  const LayerBias bias_;
  FoldedCores cores_;
  std::optional<kernels::TtChain> chain_;
  // Whether gA and gB~ hold sums of this Backward, or zeros.
  bool has_grad_a_ = false, has_grad_b_ = false;
  SavedMemory::Piece a_, b_, t_;
  SavedMemory::Piece activated_;  // T~ where it is not T's memory
  // Products of cores, of them A and B where these lie otherwise.
  Workspace::Piece inner_, bond_a_, bond_b_;
  Workspace::Piece u_, grad_a_, bond_grad_a_, grad_b_, all_grad_b_;
  Workspace::Piece chain_scratch_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_TT_LINEAR_H_
