#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_DENSE_TOKEN_ROWS_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_DENSE_TOKEN_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// The dense rows of a TTM table (Factorisation::dense_tokens) where rows of the
// table are computed in the order of their ids: block i has the rows from
// i * block_rows on. Without dense tokens, nothing is done.
class DenseTokenRows {
 public:
  // `table` is the prefix of the names of the table's parameters; `tokens` are
  // ascending.
  DenseTokenRows(const Plan& plan, const std::string& table,
                 const std::vector<int32_t>& tokens, int64_t block_rows);

  // Copies the lists of rows to the device, once. Call it before the other
  // methods.
  absl::Status SetUp();
  // Overwrites the dense tokens' rows in `rows`, which is block `block` of the
  // table, with their parameter.
  absl::Status Put(const Step& step, int64_t block, kernels::Matrix rows) const;
  // Adds the gradients of the dense rows to their parameter's, and sets them to
  // 0 in `grad_rows`, since those rows do not depend on the cores.
  absl::Status MoveGradient(const Step& step, int64_t block,
                            kernels::Matrix grad_rows) const;

 private:
  // The dense rows [first, first + count) belong to a block.
  struct Range {
    int64_t first = 0;
    int64_t count = 0;
  };
  Range RangeOf(int64_t block) const;
  kernels::ConstIndices RowsOf(const Range& range) const;

  const Plan plan_;
  const int64_t width_, block_rows_;
  const std::vector<int32_t> tokens_;
  const Parameter* parameter_ = nullptr;
  bool set_up_ = false;
  // The row of each token within its block; and as many rows of scratch.
  SavedMemory::Piece rows_;
  Workspace::Piece scratch_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_DENSE_TOKEN_ROWS_H_
