#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_CONTRACTED_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_CONTRACTED_LINEAR_H_

#include <string>
#include <vector>

#include "kernels/contraction/tt_contraction.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/linear/folded_cores.h"
#include "worker/trainer/model/linear/layer_bias.h"
#include "worker/trainer/model/linear/linear.h"

namespace comera::trainer {

// W in tensor-train form, contracted through any grouping of its cores
// (TtContraction): core by core for few rows, as a dense matrix built once per
// step where ranks are large, or in between. The prefix/suffix path with its
// rank space is TtLinear.
class ContractedLinear : public Linear {
 public:
  // `ends` cuts the cores into groups, see TtContraction.
  ContractedLinear(const Plan& plan, const FactorisableLayer& layer,
                   const Factorisation& factorisation,
                   const std::vector<int>& ends, int64_t max_rows,
                   const std::string& scratch);

  bool repeats_cheaply() const override { return false; }
  absl::Status Contract(const Step& step) override;
  absl::Status Forward(const Step& step, int64_t first_row,
                       kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Repeat(const Step& step, int64_t first_row,
                      kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Backward(const Step& step, int64_t first_row,
                        kernels::ConstMatrix x, kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x, bool accumulate) override;
  absl::Status FinishBackward(const Step& step) override;

 private:
  const Plan plan_;
  const LayerBias bias_;
  FoldedCores cores_;
  const kernels::TtContraction contraction_;
  bool accumulating_ = false;  // the groups' gradients hold earlier row blocks
  SavedMemory::Piece kept_, states_;
  Workspace::Piece grad_groups_, scratch_, finish_scratch_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_CONTRACTED_LINEAR_H_
