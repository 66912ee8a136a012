// Gives each phase of a run its own training data.
#include "worker/trainer/data/batch/phased_data.h"

#include <utility>

namespace comera::trainer {

PhasedData::PhasedData(std::vector<Phase> phases)
    : phases_(std::move(phases)) {}

absl::Status PhasedData::TrainBatch(int64_t step, int64_t batch_size, int rank,
                                    int world_size, Batch* batch) const {
  size_t i = phases_.size() - 1;
  while (i > 0 && step < phases_[i].first_step) --i;
  return phases_[i].data->TrainBatch(step - phases_[i].first_step, batch_size,
                                     rank, world_size, batch);
}

absl::Status PhasedData::ValidationBatch(int64_t first, int64_t count,
                                         Batch* batch) const {
  return last().ValidationBatch(first, count, batch);
}

absl::Status PhasedData::TestBatch(int64_t first, int64_t count,
                                   Batch* batch) const {
  return last().TestBatch(first, count, batch);
}

absl::Status PhasedData::SaveTokenizer(const std::string& directory) const {
  return last().SaveTokenizer(directory);
}

}  // namespace comera::trainer
