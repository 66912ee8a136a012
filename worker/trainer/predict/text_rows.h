#ifndef COMERA_WORKER_TRAINER_PREDICT_TEXT_ROWS_H_
#define COMERA_WORKER_TRAINER_PREDICT_TEXT_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/predict_service.pb.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// A row of text as an encoder takes it.
struct TextSample {
  std::vector<int32_t> ids;    // special tokens included, without padding
  int32_t second_start = 0;    // ids.size() without a second text
  std::vector<int32_t> masks;  // where mask tokens stand
  bool truncated = false;
};

// Turns rows into samples as training does, but cuts a long text where training
// makes several samples of it. Where `mask_token` is not empty, it stands in
// the texts for the vocabulary's mask token. Not thread-safe.
class TextRows {
 public:
  // max_length: at least 8.
  TextRows(Tokenizer* tokenizer, int32_t max_length, std::string mask_token);

  // InvalidArgument: not UTF-8.
  absl::StatusOr<TextSample> Encode(const v1::PredictRow& row);

 private:
  void EncodeText(const std::string& text, std::vector<int32_t>* ids);

  Tokenizer& tokenizer_;
  const int32_t max_length_;
  const std::string mask_token_;
};

// Makes `batch` hold `size` samples of padding, without labels.
void ClearBatch(int64_t size, int64_t length, int32_t pad, Batch* batch);
// Writes a sample into row `row`; `segments`: the second text's are 1.
void PutSample(const TextSample& sample, int64_t row, bool segments,
               Batch* batch);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_TEXT_ROWS_H_
