#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_IN_MEMORY_DATA_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_IN_MEMORY_DATA_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/data/batch/masking.h"
#include "worker/trainer/data/batch/sample_set.h"
#include "worker/trainer/data/batch/shuffled_data.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Batches from tokenised samples.
//
// Thread safety: const methods may be called from several threads.
class InMemoryData : public ShuffledData {
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
  double baseline_loss() const override { return baseline_loss_; }
  std::vector<int64_t> TokenCounts() const override;

 protected:
  int32_t TrainLength(int64_t sample) const override {
    return samples_.train.length(sample);
  }
  absl::Status Fill(Part part, int64_t sample, const MaskKey& key, int64_t row,
                    Batch* batch) const override;

 private:
  bool masked_lm() const { return options_.mask_probability > 0; }
  // How often each token is in the training samples as they are stored.
  std::vector<int64_t> StoredCounts() const;
  double MaskedLmBaseline() const;
  double ClassifierBaseline() const;

  const Options options_;
  const SampleSets samples_;
  double baseline_loss_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_IN_MEMORY_DATA_H_
