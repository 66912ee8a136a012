#ifndef COMERA_WORKER_TRAINER_MODEL_HEAD_LABEL_BUFFER_H_
#define COMERA_WORKER_TRAINER_MODEL_HEAD_LABEL_BUFFER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// The label rows and labels of a batch on the device.
class LabelBuffer {
 public:
  LabelBuffer(const Plan& plan, int64_t max_labels, int64_t outputs);

  // Checks the labels of `batch`, whose packed form is `packed`, and copies
  // them. `padded_size`: entries to have, the last of which do not count; 0:
  // those of the batch. InvalidArgument, and the labels before stay: rows out
  // of range, not ascending or padding, labels out of range, too many.
  absl::Status Set(const Batch& batch, const PackedBatch& packed,
                   int64_t padded_size);
  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  // Entries that count.
  int64_t count() const { return count_; }
  // Entries [first, first + count), in the batch's order; rows are tokens.
  kernels::ConstIndices Rows(int64_t first, int64_t count) const;
  kernels::ConstIndices Labels(int64_t first, int64_t count) const;

 private:
  const Plan plan_;
  const int64_t max_labels_;
  const int64_t outputs_;
  int64_t count_ = 0;
  std::vector<int32_t> rows_, labels_;
  SavedMemory::Piece device_rows_, device_labels_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_HEAD_LABEL_BUFFER_H_
