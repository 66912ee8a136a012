#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_SHUFFLED_DATA_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_SHUFFLED_DATA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/data/batch/masking.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/random/counter_random.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Batches of token samples in orders that a seed shuffles. What a sample holds
// is the affair of derived classes.
//
// Thread safety: const methods may be called from several threads.
class ShuffledData : public TrainingData {
 public:
  int32_t vocabulary_size() const override {
    return tokenizer_->vocabulary_size();
  }
  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override;
  absl::Status ValidationBatch(int64_t first, int64_t count,
                               Batch* batch) const override;
  absl::Status TestBatch(int64_t first, int64_t count,
                         Batch* batch) const override;
  absl::Status SaveTokenizer(const std::string& directory) const override;

 protected:
  enum class Part { kTrain, kValidation, kTest };

  // Every batch is padded to `max_length`; `format` is exported beside the
  // model.
  ShuffledData(int32_t max_length, uint64_t seed, InputFormat format,
               std::shared_ptr<const Tokenizer> tokenizer);

  // Writes a sample of a part into row `row` of `batch`, whose tokens are
  // padding so far, and appends its labels.
  // Statuses of where the sample lies.
  virtual absl::Status Fill(Part part, int64_t sample, const MaskKey& key,
                            int64_t row, Batch* batch) const = 0;

  // The tokens of a training sample, by which samples are dealt to members.
  virtual int32_t TrainLength(int64_t /*sample*/) const { return max_length_; }

  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  // Samples [first, first + count) of a held-out part of `size`, shuffled in
  // the order of a stream, with masks of another.
  absl::Status HeldOutBatch(Part part, int64_t size, RandomStream order,
                            RandomStream masks, int64_t first, int64_t count,
                            Batch* batch) const;
  // Makes `batch` hold `size` samples of padding.
  void Clear(int64_t size, int64_t first_sample, Batch* batch) const;

  const int32_t max_length_;
  const uint64_t seed_;
  const InputFormat format_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_SHUFFLED_DATA_H_
