// Grows a text token by token.
#include "worker/trainer/generate/generation.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"

namespace comera::trainer {

Generation::Generation(int64_t number, GenerationRequest request,
                       int64_t length, const Tokenizer* tokenizer,
                       absl::Time now)
    : number_(number),
      prompt_tokens_(static_cast<int64_t>(request.prompt.size())),
      max_tokens_(request.max_tokens),
      length_(length),
      end_of_text_(tokenizer->end_of_text()),
      started_(now),
      ids_(std::move(request.prompt)),
      sampler_(request.sampling),
      stream_(tokenizer, request.begins_text ? TextStream::Start::kText
                                             : TextStream::Start::kMiddle),
      stops_(std::move(request.stop)) {}

void Generation::AppendUnseen(int64_t slot, int64_t most,
                              std::vector<NewToken>* tokens) {
  const int64_t count = std::min(most, unseen());
  for (int64_t i = 0; i < count; ++i, ++seen_) {
    tokens->push_back({slot, seen_, ids_[seen_], unseen() == 1});
  }
}

v1::GenerateResponse Generation::Last(std::string text,
                                      v1::GenerateResponse::Finish finish,
                                      absl::Time now) {
  v1::GenerateResponse last;
  last.set_text(std::move(text));
  last.set_finish(finish);
  last.set_prompt_tokens(static_cast<int32_t>(prompt_tokens_));
  last.set_generated_tokens(
      static_cast<int32_t>(static_cast<int64_t>(ids_.size()) - prompt_tokens_));
  last.set_first_token_seconds(absl::ToDoubleSeconds(first_token_ - started_));
  last.set_generation_seconds(absl::ToDoubleSeconds(now - first_token_));
  return last;
}

absl::StatusOr<std::optional<v1::GenerateResponse>> Generation::Add(
    absl::Span<const float> logits, absl::Time now) {
  const auto before = static_cast<int64_t>(ids_.size()) - prompt_tokens_;
  ASSIGN_OR_RETURN(const int32_t id, sampler_.Choose(logits, before));
  ids_.push_back(id);
  if (before == 0) first_token_ = now;
  const bool ended = end_of_text_ == id;
  const bool full =
      before + 1 == max_tokens_ || static_cast<int64_t>(ids_.size()) == length_;
  std::string text;
  if (!ended) text = stops_.Add(stream_.Add(id));
  if (!stops_.found() && (ended || full)) {
    text += stops_.Add(stream_.Finish());
    text += stops_.Finish();
  }
  if (stops_.found()) {
    return Last(std::move(text), v1::GenerateResponse::STOP, now);
  }
  if (ended) {
    return Last(std::move(text), v1::GenerateResponse::END_OF_TEXT, now);
  }
  if (full) return Last(std::move(text), v1::GenerateResponse::LENGTH, now);
  if (text.empty()) return std::nullopt;
  v1::GenerateResponse piece;
  piece.set_text(std::move(text));
  return piece;
}

}  // namespace comera::trainer
