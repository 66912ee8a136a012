#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_CAUSAL_DATA_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_CAUSAL_DATA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/data/batch/documents.h"
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
  CausalData(const Options& options, DocumentParts documents,
             std::shared_ptr<const Tokenizer> tokenizer);

  int64_t train_samples() const override { return Rows(*documents_.train); }
  int64_t validation_samples() const override {
    return Rows(*documents_.validation);
  }
  int64_t test_samples() const override {
    return documents_.test == nullptr ? 0 : Rows(*documents_.test);
  }
  double baseline_loss() const override { return baseline_loss_; }
  std::vector<int64_t> TokenCounts() const override {
    return documents_.train->LabelCounts();
  }
  std::optional<double> validation_bytes_per_token() const override {
    return BytesPerToken(documents_.validation.get());
  }
  std::optional<double> test_bytes_per_token() const override {
    return BytesPerToken(documents_.test.get());
  }

 protected:
  absl::Status Fill(Part part, int64_t sample, const MaskKey& key, int64_t row,
                    Batch* batch) const override;

 private:
  int64_t Rows(const Documents& set) const {
    return (set.tokens() + length_ - 1) / length_;
  }
  // Nothing without documents or labels; `set` may be null.
  static std::optional<double> BytesPerToken(const Documents* set);
  double Baseline() const;

  const int64_t length_;
  const DocumentParts documents_;
  const double baseline_loss_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_CAUSAL_DATA_H_
