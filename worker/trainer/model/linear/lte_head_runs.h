#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_LTE_HEAD_RUNS_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_LTE_HEAD_RUNS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/plan/packed_batch.h"

namespace comera::trainer {

// The tokens from the end of the run before to `end`, which one head sees.
struct LteHeadRun {
  int64_t end = 0;
  int64_t head = 0;
};

// The tokens of a batch that each head of the LTE layers trains on.
//
// The samples of the global batch are shared out evenly and in order: head n
// has samples [n, n + 1) * samples / heads, on whichever member they are, and
// the last head also has the remainder.
//
// Allocates when made and not again for batches of no more sequences.
class LteHeadRuns {
 public:
  LteHeadRuns(int64_t heads, int64_t max_sequences);

  // `packed` is the packed form of `batch`, before it is padded.
  void Set(const Batch& batch, const PackedBatch& packed);
  // Runs by ascending end; with one head there are none.
  void Set(absl::Span<const LteHeadRun> runs);

  // The head that sees token `row`, and where its run ends, at most `rows`.
  // Tokens behind the last run, which pad the batch, are the last head's.
  LteHeadRun RunAt(int64_t row, int64_t rows) const;

  absl::Span<const LteHeadRun> runs() const { return runs_; }
  // Appends what Model::AppendShape needs to know of the runs.
  void AppendShape(std::vector<int64_t>* shape) const;

 private:
  const int64_t heads_;
  std::vector<LteHeadRun> runs_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_LTE_HEAD_RUNS_H_
