#include "worker/trainer/model/head/head_runs.h"

#include <algorithm>

namespace comera::trainer {

HeadRuns::HeadRuns(int64_t heads, int64_t max_samples) : heads_(heads) {
  runs_.reserve(heads > 1 ? max_samples : 0);
}

void HeadRuns::Set(const Batch& batch, const PackedBatch& packed) {
  runs_.clear();
  if (heads_ == 1) return;
  const int64_t samples =
      batch.global_size > 0 ? batch.global_size : batch.size;
  const int64_t share = std::max<int64_t>(1, samples / heads_);
  for (int64_t i = 0; i < packed.sequences(); ++i) {
    const int64_t sample = batch.first_sample +
                           packed.places()[packed.offsets()[i]] / batch.length;
    const int64_t head = std::min(sample / share, heads_ - 1);
    const int64_t end = packed.offsets()[i + 1];
    if (!runs_.empty() && runs_.back().head == head) {
      runs_.back().end = end;
    } else {
      runs_.push_back({end, head});
    }
  }
}

}  // namespace comera::trainer
