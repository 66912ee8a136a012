// Shares the tokens of a batch out among the heads of LTE.
#include "worker/trainer/model/linear/lte_head_runs.h"

#include <algorithm>

namespace comera::trainer {

LteHeadRuns::LteHeadRuns(int64_t heads, int64_t max_sequences) : heads_(heads) {
  runs_.reserve(heads > 1 ? max_sequences : 0);
}

void LteHeadRuns::Set(const Batch& batch, const PackedBatch& packed) {
  runs_.clear();
  if (heads_ == 1) return;
  const int64_t samples =
      batch.global_size > 0 ? batch.global_size : batch.size;
  const int64_t share = std::max<int64_t>(1, samples / heads_);
  for (int64_t i = 0; i < packed.sequences(); ++i) {
    const int64_t sample =
        batch.SampleAt(packed.places()[packed.offsets()[i]] / batch.length);
    const int64_t head = std::min(sample / share, heads_ - 1);
    const int64_t end = packed.offsets()[i + 1];
    if (!runs_.empty() && runs_.back().head == head) {
      runs_.back().end = end;
    } else {
      runs_.push_back({end, head});
    }
  }
}

void LteHeadRuns::Set(absl::Span<const LteHeadRun> runs) {
  runs_.assign(runs.begin(), runs.end());
}

LteHeadRun LteHeadRuns::RunAt(int64_t row, int64_t rows) const {
  const auto run = std::upper_bound(
      runs_.begin(), runs_.end(), row,
      [](int64_t value, const LteHeadRun& r) { return value < r.end; });
  if (run == runs_.end()) return {rows, heads_ - 1};
  return {std::min(run->end, rows), run->head};
}

void LteHeadRuns::AppendShape(std::vector<int64_t>* shape) const {
  for (const LteHeadRun& run : runs_) {
    shape->insert(shape->end(), {run.end, run.head});
  }
}

}  // namespace comera::trainer
