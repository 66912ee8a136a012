#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

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

// Text to token ids.
//
// Not thread safe: Encode keeps the ids of words it has seen.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`, without special tokens; names of special tokens
  // in the text are text. Any bytes are accepted.
  virtual void Encode(absl::string_view text, std::vector<int32_t>* ids) = 0;

  virtual const SpecialTokens& special_tokens() const = 0;
  virtual int32_t vocabulary_size() const = 0;
  // BERT: [CLS] a [SEP] b [SEP] with segments 0 and 1. Otherwise RoBERTa:
  // <s> a </s></s> b </s>, one segment.
  virtual bool has_segments() const = 0;

  // A token as the vocabulary's file has it; `id` in [0, vocabulary_size()).
  virtual const std::string& Token(int32_t id) const = 0;

  // Writes the vocabulary's files into an existing folder, and a
  // tokenizer_config.json as the transformers library has it.
  virtual absl::Status Save(const std::string& directory) const = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_H_
