// The byte level of GPT-2's and RoBERTa's tokenizers: text is cut into words by
// character class, and words are sequences of bytes, each written as one
// printable character in vocabulary files.
#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_LEVEL_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_LEVEL_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace comera::trainer {

// The character (UTF-8) that stands for each byte.
const std::array<std::string, 256>& ByteCharacters();

// Appends the bytes that the characters of `token` stand for; other characters
// are left out.
void AppendTokenBytes(absl::string_view token, std::string* bytes);

// Cuts text into words as the regular expression
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// does. Every byte belongs to exactly one word; bytes that are not UTF-8 count
// as neither letter, number nor space.
class WordSplitter {
 public:
  explicit WordSplitter(absl::string_view text) : text_(text) {}

  // False at the end.
  bool Next(absl::string_view* word);

 private:
  enum class Class : uint8_t { kLetter, kNumber, kSpace, kOther };
  // Class of the character at `position`, and where the next one starts.
  Class Classify(size_t position, size_t* next) const;
  // End of the run of `kind` that `position` is in.
  size_t RunEnd(size_t position, Class kind) const;
  size_t SpaceEnd(size_t start) const;
  // Length of 's, 't, 're, ... at the current position, 0 if there is none.
  size_t ContractionLength() const;

  const absl::string_view text_;
  size_t position_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_LEVEL_H_
