#ifndef COMERA_WORKER_TRAINER_GENERATE_GENERATION_H_
#define COMERA_WORKER_TRAINER_GENERATE_GENERATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comera/v1/predict_service.pb.h"
#include "worker/trainer/data/tokenizer/text_stream.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"
#include "worker/trainer/generate/cached_decoder.h"
#include "worker/trainer/generate/generation_request.h"
#include "worker/trainer/generate/sampler.h"
#include "worker/trainer/generate/stop_texts.h"

namespace comera::trainer {

// A text that grows: its tokens, which of them the model has seen, and how they
// become pieces of text.
//
//   while (!finished) {
//     generation.AppendUnseen(slot, room, &tokens);
//     ... the model's step ...
//     if (generation.unseen() == 0) generation.Add(logits, now);
//   }
//
// Not thread-safe.
class Generation {
 public:
  // Tokens of a text are at most `length`. `tokenizer` outlives it.
  Generation(int64_t number, GenerationRequest request, int64_t length,
             const Tokenizer* tokenizer, absl::Time now);

  // The request's number.
  int64_t number() const { return number_; }
  // Tokens that the model has yet to see.
  int64_t unseen() const { return static_cast<int64_t>(ids_.size()) - seen_; }
  // Appends the next of them, at most `most`; the last of all asks for logits.
  void AppendUnseen(int64_t slot, int64_t most, std::vector<NewToken>* tokens);
  // Adds the token that the logits (vocabulary) choose. Returns what it adds to
  // the text, if anything; the last piece has `finish`, and nothing may be
  // called after it. Errors of Sampler::Choose.
  absl::StatusOr<std::optional<v1::GenerateResponse>> Add(
      absl::Span<const float> logits, absl::Time now);

 private:
  v1::GenerateResponse Last(std::string text,
                            v1::GenerateResponse::Finish finish,
                            absl::Time now);

  const int64_t number_;
  const int64_t prompt_tokens_, max_tokens_, length_;
  const std::optional<int32_t> end_of_text_;
  const absl::Time started_;
  absl::Time first_token_;
  std::vector<int32_t> ids_;
  int64_t seen_ = 0;
  Sampler sampler_;
  TextStream stream_;
  StopTexts stops_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_GENERATE_GENERATION_H_
