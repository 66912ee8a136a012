#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_WORDPIECE_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_WORDPIECE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"
#include "worker/trainer/data/tokenizer/word_cache.h"

namespace comera::trainer {

// BERT's tokenizer. Text is cleaned (control characters out, CJK characters
// set apart), lower-cased and stripped of accents if asked, cut at spaces and
// punctuation; each word becomes the longest pieces that the vocabulary has,
// from the left, or [UNK].
class WordpieceTokenizer : public Tokenizer {
 public:
  // Reads vocab.txt, one token per line. NotFound; DataLoss, with file and
  // line: not UTF-8, an empty or duplicate line, a line above 1 KiB, a special
  // token missing.
  static absl::StatusOr<std::unique_ptr<WordpieceTokenizer>> Load(
      const std::string& vocabulary_file, bool lowercase);
  // The same from contents; `name` is for messages.
  static absl::StatusOr<std::unique_ptr<WordpieceTokenizer>> Parse(
      absl::string_view contents, const std::string& name, bool lowercase);

  void Encode(absl::string_view text, std::vector<int32_t>* ids) override;
  // A word's first piece brings the space before it: the text comes back but
  // for its spaces, and for what cleaning and lower case took.
  void AppendBytes(int32_t id, std::string* bytes) const override;
  bool adds_first_space() const override { return true; }

  const SpecialTokens& special_tokens() const override { return special_; }
  // [SEP]
  std::optional<int32_t> end_of_text() const override { return special_.sep; }
  int32_t vocabulary_size() const override {
    return static_cast<int32_t>(tokens_.size());
  }
  bool has_segments() const override { return true; }
  const std::string& Token(int32_t id) const override { return tokens_[id]; }
  // vocab.txt, tokenizer_config.json.
  absl::Status Save(const std::string& directory) const override;

 private:
  explicit WordpieceTokenizer(bool lowercase) : lowercase_(lowercase) {}
  absl::Status FindSpecialTokens(const std::string& name);
  void EncodeWord(absl::string_view word, std::vector<int32_t>* ids);
  void FindPieces(absl::string_view word, std::vector<int32_t>* ids) const;

  const bool lowercase_;
  std::vector<std::string> tokens_;
  // Ids of word starts, and of continuations ("##ing" without the "##").
  absl::flat_hash_map<std::string, int32_t> starts_;
  absl::flat_hash_map<std::string, int32_t> continuations_;
  size_t longest_token_ = 0;  // bytes
  SpecialTokens special_;
  WordCache cache_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_WORDPIECE_TOKENIZER_H_
