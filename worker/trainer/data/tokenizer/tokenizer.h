#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

// Ids of the tokens that samples are built with. Vocabularies of language
// models lack some: cls, sep, mask and unk are -1 there, and pad is an ordinary
// id, which serves as well since nothing reads what it fills.
struct SpecialTokens {
  int32_t pad = 0;
  int32_t cls = 0;  // first of every sample: [CLS], <s>
  int32_t sep = 0;  // closes a sentence: [SEP], </s>
  int32_t mask = 0;
  int32_t unk = 0;

  bool Contains(int32_t id) const {
    return id == pad || id == cls || id == sep || id == mask || id == unk;
  }
};

// Text to token ids and back.
//
// Not thread safe: Encode keeps the ids of words it has seen.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`; special tokens are not added around it. Names of
  // special tokens in the text are text, but for HUGGING_FACE, whose added
  // tokens are found there. Any bytes are accepted.
  virtual void Encode(absl::string_view text, std::vector<int32_t>* ids) = 0;

  // The bytes of the text that `ids` stand for; special tokens and ids outside
  // the vocabulary are left out. Cut anywhere, they need not be UTF-8:
  // TextStream gives UTF-8.
  std::string Decode(const std::vector<int32_t>& ids) const;

  // Appends what `id`, in [0, vocabulary_size()), adds to a text: nothing for a
  // special token, otherwise bytes that may be part of a character. By default
  // the token.
  virtual void AppendBytes(int32_t id, std::string* bytes) const {
    bytes->append(Token(id));
  }
  // Whether a text's first token carries a space that the text does not have.
  virtual bool adds_first_space() const { return false; }

  virtual const SpecialTokens& special_tokens() const = 0;
  // The token that ends a document; none where the vocabulary has no such
  // token.
  virtual std::optional<int32_t> end_of_text() const { return std::nullopt; }
  virtual int32_t vocabulary_size() const = 0;
  // BERT: [CLS] a [SEP] b [SEP] with segments 0 and 1. Otherwise RoBERTa:
  // <s> a </s></s> b </s>, one segment.
  virtual bool has_segments() const = 0;

  // A token as the vocabulary's file has it; `id` in [0, vocabulary_size()).
  virtual const std::string& Token(int32_t id) const = 0;

  // Writes the vocabulary's files into an existing folder, and a
  // tokenizer_config.json as the transformers library has it where it knows
  // such a tokenizer.
  virtual absl::Status Save(const std::string& directory) const = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_H_
