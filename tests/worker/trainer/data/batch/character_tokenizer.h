#ifndef COMERA_TESTS_WORKER_TRAINER_DATA_BATCH_CHARACTER_TOKENIZER_H_
#define COMERA_TESTS_WORKER_TRAINER_DATA_BATCH_CHARACTER_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Makes every character a token, its code; "?" is unknown.
class CharacterTokenizer : public Tokenizer {
 public:
  explicit CharacterTokenizer(bool segments = false,
                              std::optional<int32_t> end_of_text = {})
      : segments_(segments), end_of_text_(end_of_text) {}

  void Encode(absl::string_view text, std::vector<int32_t>* ids) override {
    for (const char c : text) ids->push_back(c == '?' ? special_.unk : c);
  }
  const SpecialTokens& special_tokens() const override { return special_; }
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  int32_t vocabulary_size() const override { return 128; }
  bool has_segments() const override { return segments_; }
  const std::string& Token(int32_t) const override { return token_; }
  absl::Status Save(const std::string&) const override {
    return absl::OkStatus();
  }

 private:
  const bool segments_;
  const std::optional<int32_t> end_of_text_;
  const SpecialTokens special_ = {0, 1, 2, 4, 3};
  const std::string token_;
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_DATA_BATCH_CHARACTER_TOKENIZER_H_
