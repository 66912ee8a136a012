#ifndef COMERA_WORKER_TRAINER_PREDICT_TOKEN_CHOICES_H_
#define COMERA_WORKER_TRAINER_PREDICT_TOKEN_CHOICES_H_

#include "absl/types/span.h"
#include "comera/v1/predict_service.pb.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Adds the most probable tokens of one place to `mask`, the best first; logits
// (vocabulary). As many as the request asks for, and the logits if it does.
void FillChoices(const v1::PredictRequest& request,
                 absl::Span<const float> logits, const Tokenizer& tokenizer,
                 v1::FilledMask* mask);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_TOKEN_CHOICES_H_
