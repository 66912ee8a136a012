#ifndef COMERA_WORKER_TRAINER_GENERATE_GENERATION_REQUEST_H_
#define COMERA_WORKER_TRAINER_GENERATE_GENERATION_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/predict_service.pb.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"
#include "worker/trainer/generate/sampler.h"

namespace comera::trainer {

// A request within its limits, with defaults filled in.
struct GenerationRequest {
  std::vector<int32_t> prompt;  // at least one token
  // The prompt is not of the request, but begins a text.
  bool begins_text = false;
  int64_t max_tokens = 0;
  SamplingOptions sampling;
  std::vector<std::string> stop;
};

// Checks a request to a model that takes texts of up to `length` tokens. A
// prompt without tokens becomes the token that begins texts or, where the
// vocabulary has none, the one that ends the text before. InvalidArgument names
// the field.
absl::StatusOr<GenerationRequest> CheckGenerateRequest(
    const v1::GenerateRequest& request, int64_t length, Tokenizer* tokenizer);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_GENERATE_GENERATION_REQUEST_H_
