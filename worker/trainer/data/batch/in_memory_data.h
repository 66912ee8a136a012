#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_IN_MEMORY_DATA_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_IN_MEMORY_DATA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/data/batch/masking.h"
#include "worker/trainer/data/batch/sample_set.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/random/counter_random.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Batches from tokenised samples.
//
// Thread safety: const methods may be called from several threads.
class InMemoryData : public TrainingData {
 public:
  struct Options {
    // Every batch is padded to this; no sample is longer.
    int32_t max_length = 0;
    uint64_t seed = 0;
    // Masked LM: share of tokens to predict. 0: labels are classes at [CLS].
    double mask_probability = 0;
    // Tokens of a second sentence are segment 1.
    bool use_segments = false;
    // Classifier: number of classes.
    int32_t classes = 0;
    // Exported beside the model.
    InputFormat format;
  };

  // The training and validation parts of `samples` hold at least one.
  InMemoryData(const Options& options, SampleSets samples,
               std::unique_ptr<Tokenizer> tokenizer);

  int64_t train_samples() const override { return samples_.train.size(); }
  int64_t validation_samples() const override {
    return samples_.validation.size();
  }
  int64_t test_samples() const override { return samples_.test.size(); }
  int32_t classes() const override { return options_.classes; }
  int32_t vocabulary_size() const override {
    return tokenizer_->vocabulary_size();
  }
  double baseline_loss() const override { return baseline_loss_; }
  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override;
  absl::Status ValidationBatch(int64_t first, int64_t count,
                               Batch* batch) const override;
  absl::Status TestBatch(int64_t first, int64_t count,
                         Batch* batch) const override;
  absl::Status SaveTokenizer(const std::string& directory) const override;

 private:
  bool masked_lm() const { return options_.mask_probability > 0; }
  // Samples [first, first + count) of a held-out set, shuffled in the order of
  // a stream, with masks of another.
  absl::Status HeldOutBatch(const SampleSet& set, RandomStream order,
                            RandomStream masks, int64_t first, int64_t count,
                            Batch* batch) const;
  // Makes `batch` hold `size` samples of padding.
  void Clear(int64_t size, int64_t first_sample, Batch* batch) const;
  // Writes a sample of `set` into row `row` of `batch`, with its labels.
  void Fill(const SampleSet& set, int64_t sample, const MaskKey& key,
            int64_t row, Batch* batch) const;
  double MaskedLmBaseline() const;
  double ClassifierBaseline() const;

  const Options options_;
  const SampleSets samples_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  double baseline_loss_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_IN_MEMORY_DATA_H_
