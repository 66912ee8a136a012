#ifndef COMERA_WORKER_TRAINER_PREDICT_TEXT_PREDICTOR_H_
#define COMERA_WORKER_TRAINER_PREDICT_TEXT_PREDICTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"
#include "worker/trainer/predict/predictor.h"
#include "worker/trainer/predict/predictor_parts.h"
#include "worker/trainer/predict/text_rows.h"

namespace comera::trainer {

// Classes of texts and pairs, and masked tokens.
class TextPredictor : public Predictor {
 public:
  // DataLoss: the tokenizer is not the model's.
  static absl::StatusOr<std::unique_ptr<Predictor>> Create(
      PredictorParts parts, std::unique_ptr<Tokenizer> tokenizer);

 protected:
  absl::Status Answer(const v1::PredictRequest& request,
                      v1::PredictResponse* response) override;

 private:
  // A sequence that goes through the model, and the row it predicts for.
  struct Item {
    int row = 0;
    TextSample sample;
    // The places where logits are wanted.
    std::vector<int32_t> places;
    // pseudo_loss: the token that was masked; -1: none was.
    int32_t hidden_token = -1;
  };
  struct Pass;

  TextPredictor(PredictorParts parts, std::unique_ptr<Tokenizer> tokenizer);
  bool masked_lm() const;
  int64_t Width() const;
  // Adds the row's sequences; InvalidArgument: it has none.
  absl::Status AddRow(const v1::PredictRow& row, Pass* pass);
  // Runs the sequences that wait.
  absl::Status Flush(Pass* pass);
  // Fill in what the logits of a row, or of a masked place, predict.
  void FillClass(const v1::PredictRow& row, absl::Span<const float> logits,
                 bool with_logits, v1::Prediction* prediction) const;
  void FillMask(const v1::PredictRequest& request, int32_t place,
                absl::Span<const float> logits,
                v1::Prediction* prediction) const;

  PredictorParts parts_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  TextRows rows_;
  absl::flat_hash_map<std::string, int32_t> classes_;
  const bool segments_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_TEXT_PREDICTOR_H_
