#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_WORD_EMBEDDING_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_WORD_EMBEDDING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Rows of a table, in some form. A step: SetIds, Forward, Backward.
class WordEmbedding {
 public:
  virtual ~WordEmbedding() = default;

  // Sets the rows of the next steps: host memory, ascending and distinct (see
  // UniqueIds), so that each is computed once. `padded_rows`: rows that
  // Forward and Backward have, at least ids.size() and at most as planned; the
  // rows behind those of the ids may hold anything and have no gradient. 0:
  // ids.size().
  // InvalidArgument: more than planned, not ascending, or beyond the table.
  virtual absl::Status SetIds(absl::Span<const int32_t> ids,
                              int64_t padded_rows) = 0;
  absl::Status SetIds(absl::Span<const int32_t> ids) { return SetIds(ids, 0); }
  // See Model::AppendShape; describes the last SetIds, its number of rows
  // apart.
  virtual void AppendShape(std::vector<int64_t>* shape) const = 0;
  // rows[i] = table[ids[i]]; rows is (ids.size() or padded_rows, width).
  virtual absl::Status Forward(const Step& step, kernels::Matrix rows) = 0;
  // Adds the gradients of what the last Forward read.
  virtual absl::Status Backward(const Step& step,
                                kernels::ConstMatrix grad_rows) = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_WORD_EMBEDDING_H_
