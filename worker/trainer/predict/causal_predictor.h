#ifndef COMERA_WORKER_TRAINER_PREDICT_CAUSAL_PREDICTOR_H_
#define COMERA_WORKER_TRAINER_PREDICT_CAUSAL_PREDICTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"
#include "worker/trainer/generate/generator.h"
#include "worker/trainer/predict/predictor.h"
#include "worker/trainer/predict/predictor_parts.h"

namespace comera::trainer {

// The most probable next tokens of texts, which are told as a mask filled
// behind the text; or, with pseudo_loss, the mean loss of the text's tokens,
// each predicted from those before it. A text that is too long is cut at its
// beginning for the next token, and at its end for the loss. Texts are
// continued by its generator.
class CausalPredictor : public Predictor {
 public:
  // DataLoss: the tokenizer is not the model's.
  static absl::StatusOr<std::unique_ptr<Predictor>> Create(
      PredictorParts parts, std::unique_ptr<Tokenizer> tokenizer);

  absl::StatusOr<Generator*> generator() override;

 protected:
  absl::Status Answer(const v1::PredictRequest& request,
                      v1::PredictResponse* response) override;

 private:
  CausalPredictor(PredictorParts parts, std::unique_ptr<Tokenizer> tokenizer);
  absl::Status MakeGenerator();
  // The row's tokens, at most as many as the model takes. InvalidArgument: not
  // a text that can be answered.
  absl::StatusOr<std::vector<int32_t>> Encode(const v1::PredictRow& row,
                                              bool pseudo_loss,
                                              bool* truncated);
  // Answers one row.
  absl::Status Run(const v1::PredictRequest& request,
                   const std::vector<int32_t>& ids, v1::Prediction* prediction);

  PredictorParts parts_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  // Uses the scorer's parameters.
  absl::StatusOr<std::unique_ptr<Generator>> generator_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_CAUSAL_PREDICTOR_H_
