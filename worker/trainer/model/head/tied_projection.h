#ifndef COMERA_WORKER_TRAINER_MODEL_HEAD_TIED_PROJECTION_H_
#define COMERA_WORKER_TRAINER_MODEL_HEAD_TIED_PROJECTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/contraction/ttm_expansion.h"
#include "worker/trainer/model/embedding/dense_token_rows.h"
#include "worker/trainer/model/embedding/expanded_table.h"
#include "worker/trainer/model/linear/folded_cores.h"
#include "worker/trainer/model/linear/layer_bias.h"
#include "worker/trainer/model/linear/linear.h"

namespace comera::trainer {

// Y = X E^T + bias with the word embedding's table E (vocabulary, hidden) and
// the parameter head.output.bias, if there is one. E has one set of parameters
// and its gradient is the sum of both uses.
//
// A dense table is used where it lies, and a TTM table that is expanded
// (Plan::table) as a whole. Of other TTM tables rows are computed block by
// block of the vocabulary for each call, and so are their gradients, so that
// the table is never in memory as a whole. Its dense rows, if it has some, take
// the places of those that the cores give. A pruned table without dense rows
// gives Y = bias.
class TiedProjection : public Linear {
 public:
  explicit TiedProjection(const Plan& plan);

  bool repeats_cheaply() const override { return false; }
  absl::Status SetUp() override;
  // Exchanges axes, so that it may not run together with other operations.
  absl::Status Contract(const Step& step) override;
  absl::Status Forward(const Step& step, int64_t first_row,
                       kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Repeat(const Step& step, int64_t first_row,
                      kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Backward(const Step& step, int64_t first_row,
                        kernels::ConstMatrix x, kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x, bool accumulate) override;

 private:
  // E as a whole: dense, or expanded.
  bool whole() const { return weight_ != nullptr || plan_.table != nullptr; }
  kernels::ConstMatrix Table(const Step& step) const;
  absl::Status AddTableGradient(const Step& step, kernels::ConstMatrix x,
                                kernels::ConstMatrix grad_y);

  void PlanBlocks(const Plan& plan, const std::string& table,
                  const Factorisation& form);
  int64_t blocks() const { return (vocabulary_ + block_ - 1) / block_; }
  int64_t BlockSize(int64_t block) const;
  // Parts of the table that hold a block, and the first of them.
  int64_t Parts(int64_t block) const;
  int64_t FirstPart(int64_t block) const {
    return block * expansion_->max_parts();
  }
  // Rows of the table from block * block_ on, computed, in workspace.
  absl::Status ComputeRows(const Step& step, int64_t block,
                           kernels::Matrix* rows);
  // Takes the gradient of a block's rows to the halves of the table.
  absl::Status ProjectRows(const Step& step, int64_t block,
                           kernels::Matrix grad_rows);

  const Plan plan_;
  const int64_t vocabulary_, hidden_;
  const LayerBias bias_;
  const Parameter* weight_ = nullptr;  // dense only
  // Members of a table that is computed block by block only.
  int64_t block_ = 0;  // rows
  std::optional<DenseTokenRows> dense_rows_;
  std::optional<kernels::TtmExpansion> expansion_;  // none if pruned
  std::optional<FoldedCores> cores_;                // none if pruned
  SavedMemory::Piece halves_;
  Workspace::Piece scratch_, rows_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_HEAD_TIED_PROJECTION_H_
