#ifndef COMERA_WORKER_TRAINER_MODEL_HEAD_HEAD_RUNS_H_
#define COMERA_WORKER_TRAINER_MODEL_HEAD_HEAD_RUNS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Which tokens the heads of LTE see: the samples of the global batch are shared
// out evenly and in order, so that head n has [n, n + 1) * samples / heads of
// them, on whichever rank they are. What is left over goes to the last.
//
// Allocates when made and not again for batches of no more samples.
class HeadRuns {
 public:
  HeadRuns(int64_t heads, int64_t max_samples);

  // `packed` is the batch's.
  void Set(const Batch& batch, const PackedBatch& packed);
  // By ascending end; empty with one head.
  absl::Span<const HeadRun> runs() const { return runs_; }

 private:
  const int64_t heads_;
  std::vector<HeadRun> runs_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_HEAD_HEAD_RUNS_H_
