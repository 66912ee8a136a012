#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_EXPANDED_TABLE_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_EXPANDED_TABLE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/contraction/ttm_expansion.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/embedding/dense_token_rows.h"
#include "worker/trainer/model/linear/folded_cores.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// The word table that the input and a tied output share, in TTM form, expanded
// as a whole once a step. Both read its rows and add to its gradient, which
// goes back to the cores once, at the end. Its dense rows, if it has some, take
// the places of those that the cores give.
//
// A step: Expand, any number of calls of rows and, going back, AddGradient,
// then FinishBackward.
class ExpandedTable {
 public:
  // Null where input and output share no TTM table, where the table is pruned
  // away, and where it would take too much memory: more than 32 MiB in the
  // host's, 1 GiB in a device's. `plan` is that of stage 0.
  static std::unique_ptr<ExpandedTable> Create(const Plan& plan);

  // Copies to the device what no step changes; called before the first step.
  absl::Status SetUp() { return dense_rows_.SetUp(); }
  // Exchanges axes, so that it may not run together with other operations;
  // comes before stage 0.
  absl::Status Expand(const Step& step);
  // (vocabulary, hidden), of the last Expand.
  kernels::ConstMatrix rows() const;

  // Adds grad_y^T x for logits Y = X E^T: grad_y (n, vocabulary), x (n,
  // hidden).
  absl::Status AddGradient(kernels::ConstMatrix grad_y, kernels::ConstMatrix x);
  // Adds row i of grad_rows to row ids[i].
  absl::Status AddGradient(kernels::ConstMatrix grad_rows,
                           kernels::ConstIndices ids);
  // Takes the gradient back to the cores and dense rows; comes after all stages
  // went backward. Exchanges axes as well.
  absl::Status FinishBackward(const Step& step);

 private:
  ExpandedTable(const Plan& plan, const std::string& name,
                kernels::TtmExpansion expansion);

  kernels::Matrix Gradient() const;

  const Plan plan_;
  const int64_t vocabulary_, hidden_;
  const kernels::TtmExpansion expansion_;
  FoldedCores cores_;
  DenseTokenRows dense_rows_;
  bool has_gradient_ = false;  // Gradient() holds sums of this step
  SavedMemory::Piece expanded_, halves_, gradient_;
  Workspace::Piece scratch_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_EXPANDED_TABLE_H_
