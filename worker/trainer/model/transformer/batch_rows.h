#ifndef COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_BATCH_ROWS_H_
#define COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_BATCH_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/linear/lte_head_runs.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// The rows of a batch that a transformer computes: its tokens, packed and
// padded, with what the device needs to know of them.
class BatchRows {
 public:
  explicit BatchRows(const Plan& plan);

  // Copies the lists of the batch to the device and fills in *step, whose
  // train, padded and state are given. InvalidArgument: malformed batch.
  absl::Status Set(const Batch& batch, Step* step);
  // See Model::AppendShape; `step` is the one that the last Set filled in.
  void AppendShape(const Step& step, std::vector<int64_t>* shape) const;

  // The batch of the last Set, padding included.
  const PackedBatch& packed() const { return packed_; }
  const LteHeadRuns& head_runs() const { return head_runs_; }

 private:
  void Pad(const Batch& batch);

  const Plan plan_;
  PackedBatch packed_;
  LteHeadRuns head_runs_;
  SavedMemory::Piece offsets_, row_ids_;
  SavedMemory::Piece positions_;  // causal only
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_BATCH_ROWS_H_
