#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_COLA_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_COLA_LINEAR_H_

#include <string>

#include "kernels/backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/linear/layer_bias.h"
#include "worker/trainer/model/linear/linear.h"

namespace comera::trainer {

// CoLA (arXiv 2502.10940): Y = f(X A) B + bias in place of a matrix, f being
// SiLU or the identity; parameters NAME.a (inputs, rank), NAME.b (rank,
// outputs) and, if there is one, NAME.bias.
//
// Only T = X A is kept for the rows, as in the paper's CoLA-M, so that Repeat
// costs one of the two products.
class ColaLinear : public Linear {
 public:
  ColaLinear(const Plan& plan, const std::string& name, const LowRank& form,
             int64_t max_rows);

  bool repeats_cheaply() const override { return true; }
  absl::Status Forward(const Step& step, int64_t first_row,
                       kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Repeat(const Step& step, int64_t first_row,
                      kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Backward(const Step& step, int64_t first_row,
                        kernels::ConstMatrix x, kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x, bool accumulate) override;

 private:
  kernels::Matrix T(int64_t first_row, int64_t rows) const;
  kernels::Matrix Scratch(Workspace::Piece piece, int64_t rows) const;

  const Plan plan_;
  const kernels::Activation f_;
  const LayerBias bias_;
  const Parameter &a_, &b_;
  const int64_t inputs_, rank_, outputs_;
  SavedMemory::Piece t_;
  Workspace::Piece activated_, u_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_COLA_LINEAR_H_
