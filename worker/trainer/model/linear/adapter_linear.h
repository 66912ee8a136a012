#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_ADAPTER_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_ADAPTER_LINEAR_H_

#include <string>

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/linear/layer_bias.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/linear/lte_head_runs.h"

namespace comera::trainer {

// A frozen W beside trained products of thin matrices: NAME.weight (inputs,
// outputs) has no gradient, NAME.a (inputs, heads * rank), NAME.b (heads *
// rank, outputs) and, if there is one, NAME.bias have.
//
// LoRA (arXiv 2106.09685), one head: Y = X W + scale X A B + bias.
// LTE (arXiv 2402.16828): the samples of the global batch are shared out among
// the heads (lte_head_runs.h). NAME.previous_a and NAME.previous_b, without a
// gradient, are A' and B', the factors at the last merge, 0 before the first.
// In training the rows of head n see
//   Y = X W + scale X (A_n B_n - A'_n B'_n) + bias,
// elsewhere all rows see the mean of these over the heads. Every so many steps
// the optimiser moves the mean into W (lte_optimizer.h).
class AdapterLinear : public Linear {
 public:
  // `head_runs`, of the last batch set, is read by training steps of a layer
  // with several heads; null: all rows are the last head's.
  AdapterLinear(const Plan& plan, const std::string& name, const LowRank& form,
                int64_t max_rows, const LteHeadRuns* head_runs);

  bool repeats_cheaply() const override { return false; }
  absl::Status Forward(const Step& step, int64_t first_row,
                       kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Repeat(const Step& step, int64_t first_row,
                      kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Backward(const Step& step, int64_t first_row,
                        kernels::ConstMatrix x, kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x, bool accumulate) override;

 private:
  // The head of row `begin` of a block, and the row of the block at which its
  // run ends.
  LteHeadRun RunAt(int64_t first_row, int64_t begin, int64_t rows) const;
  // The columns of a head in A or A', and its rows in B or B', which lie at
  // `values`; so do their gradients.
  template <typename T>
  kernels::MatrixView<T> Columns(T* values, int64_t head) const;
  template <typename T>
  kernels::MatrixView<T> HeadRows(T* values, int64_t head) const;
  // Y += factor X (A_n B_n - A'_n B'_n); T = X A_n stays for Backward.
  absl::Status AddProduct(const Step& step, int64_t first_row, int64_t head,
                          float factor, kernels::ConstMatrix x,
                          kernels::Matrix y);

  const Plan plan_;
  const LowRank form_;
  const LteHeadRuns* const head_runs_;
  const LayerBias bias_;
  const Parameter &weight_, &a_, &b_;
  // Null unless the layer is LTE's.
  const Parameter* const previous_a_;
  const Parameter* const previous_b_;
  const int64_t inputs_, outputs_;
  SavedMemory::Piece t_;  // (max_rows, rank)
  Workspace::Piece u_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_ADAPTER_LINEAR_H_
