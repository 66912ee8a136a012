#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_CAUSAL_DATA_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_CAUSAL_DATA_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/data/batch/document_set.h"
#include "worker/trainer/data/batch/masking.h"
#include "worker/trainer/data/batch/shuffled_data.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Batches for causal language models: the documents of each part, one after
// another, cut into rows of `length` tokens, of which only a part's last one
// may be short. A batch's segments number the documents within each row from 0.
// The label of a token is the next token of its document, which for a row's
// last token is the first one of the following row.
//
// Thread safety: const methods may be called from several threads.
class CausalData : public ShuffledData {
 public:
  struct Options {
    // Tokens of a row.
    int32_t length = 0;
    uint64_t seed = 0;
    // Exported beside the model.
    InputFormat format;
  };

  // The training and validation parts of `documents` have labels.
  CausalData(const Options& options,
             std::shared_ptr<const DocumentSets> documents,
             std::shared_ptr<const Tokenizer> tokenizer);

  int64_t train_samples() const override { return Rows(documents_->train); }
  int64_t validation_samples() const override {
    return Rows(documents_->validation);
  }
  int64_t test_samples() const override { return Rows(documents_->test); }
  double baseline_loss() const override { return baseline_loss_; }
  std::optional<double> validation_bytes_per_token() const override {
    return BytesPerToken(documents_->validation);
  }
  std::optional<double> test_bytes_per_token() const override {
    return BytesPerToken(documents_->test);
  }

 protected:
  void Fill(Part part, int64_t sample, const MaskKey& key, int64_t row,
            Batch* batch) const override;

 private:
  int64_t Rows(const DocumentSet& set) const {
    return (set.tokens() + length_ - 1) / length_;
  }
  // Nothing without labels.
  static std::optional<double> BytesPerToken(const DocumentSet& set);
  double Baseline() const;

  const int64_t length_;
  const std::shared_ptr<const DocumentSets> documents_;
  const double baseline_loss_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_CAUSAL_DATA_H_
