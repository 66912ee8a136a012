// A vocabulary of letters for tests.
#ifndef COMERA_TESTS_WORKER_TRAINER_GENERATE_LETTER_TOKENIZER_H_
#define COMERA_TESTS_WORKER_TRAINER_GENERATE_LETTER_TOKENIZER_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// 31 tokens: a to z, a space, a newline, the two bytes of an e with an acute
// accent, and a token that ends texts, 30, unless there is none.
class LetterTokenizer : public Tokenizer {
 public:
  static constexpr int32_t kEnd = 30;

  explicit LetterTokenizer(bool ends = true) : ends_(ends) {
    special_.cls = special_.sep = special_.mask = special_.unk = -1;
    for (char c = 'a'; c <= 'z'; ++c) tokens_.emplace_back(1, c);
    for (const char* token : {" ", "\n", "\xc3", "\xa9", "<end>"}) {
      tokens_.emplace_back(token);
    }
  }

  // Other bytes have no token.
  void Encode(absl::string_view text, std::vector<int32_t>* ids) override {
    for (const char c : text) {
      const auto found =
          std::find(tokens_.begin(), tokens_.end(), std::string(1, c));
      if (found != tokens_.end()) {
        ids->push_back(static_cast<int32_t>(found - tokens_.begin()));
      }
    }
  }
  void AppendBytes(int32_t id, std::string* bytes) const override {
    if (id != kEnd) bytes->append(tokens_[id]);
  }
  const SpecialTokens& special_tokens() const override { return special_; }
  std::optional<int32_t> end_of_text() const override {
    return ends_ ? std::optional<int32_t>(kEnd) : std::nullopt;
  }
  int32_t vocabulary_size() const override { return 31; }
  bool has_segments() const override { return false; }
  const std::string& Token(int32_t id) const override { return tokens_[id]; }
  absl::Status Save(const std::string&) const override {
    return absl::OkStatus();
  }

 private:
  const bool ends_;
  SpecialTokens special_;
  std::vector<std::string> tokens_;
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_GENERATE_LETTER_TOKENIZER_H_
