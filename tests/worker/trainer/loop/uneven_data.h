// The tiny job's sentences, of different lengths and with different numbers of
// labels.
#ifndef COMERA_TESTS_WORKER_TRAINER_LOOP_UNEVEN_DATA_H_
#define COMERA_TESTS_WORKER_TRAINER_LOOP_UNEVEN_DATA_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "tests/worker/trainer/tiny_job.h"

namespace comera::trainer {

// Sentences of 2 to 8 tokens, of which those that were hidden, none up to two,
// are labels; or all with one of `classes` classes. The mean over a batch is
// then not that of the means over its parts.
class UnevenData : public FakeTrainingData {
 public:
  explicit UnevenData(int classes = 0) : classes_(classes) {}

  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override {
    RETURN_IF_ERROR(FakeTrainingData::TrainBatch(step, batch_size, rank,
                                                 world_size, batch));
    Shorten(step, batch);
    return absl::OkStatus();
  }
  absl::Status ValidationBatch(int64_t first, int64_t count,
                               Batch* batch) const override {
    RETURN_IF_ERROR(FakeTrainingData::ValidationBatch(first, count, batch));
    Shorten(0, batch);
    return absl::OkStatus();
  }

  // The tokens and the labels of a step's whole batch.
  std::pair<int64_t, int64_t> Count(int64_t step, int64_t batch_size) const {
    Batch batch;
    if (!TrainBatch(step, batch_size, 0, 1, &batch).ok()) return {0, 0};
    int64_t tokens = 0;
    for (const float real : batch.mask) tokens += real > 0 ? 1 : 0;
    return {tokens, static_cast<int64_t>(batch.labels.size())};
  }

 private:
  void Shorten(int64_t step, Batch* batch) const {
    for (int64_t s = 0; s < batch->size; ++s) {
      const int64_t length = 2 + (5 * step + 3 * (batch->first_sample + s)) % 7;
      for (int64_t i = length; i < batch->length; ++i) {
        batch->mask[s * batch->length + i] = 0;
      }
    }
    std::vector<int32_t> rows, labels;
    for (size_t i = 0; i < batch->labels.size(); ++i) {
      const int32_t row = batch->label_rows[i];
      if (batch->mask[row] == 0) continue;
      rows.push_back(row);
      labels.push_back(batch->labels[i]);
    }
    if (classes_ > 0) SetClasses(*batch, &rows, &labels);
    batch->label_rows = std::move(rows);
    batch->labels = std::move(labels);
  }

  void SetClasses(const Batch& batch, std::vector<int32_t>* rows,
                  std::vector<int32_t>* labels) const {
    rows->clear();
    labels->clear();
    for (int64_t s = 0; s < batch.size; ++s) {
      const int64_t row = s * batch.length;
      rows->push_back(static_cast<int32_t>(row));
      labels->push_back(std::max(batch.ids[row], batch.ids[row + 1]) %
                        classes_);
    }
  }

  const int classes_;
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_LOOP_UNEVEN_DATA_H_
