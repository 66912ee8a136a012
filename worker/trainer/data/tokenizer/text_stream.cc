// Gives the text of a stream of ids in pieces of whole characters.
#include "worker/trainer/data/tokenizer/text_stream.h"

#include <cstddef>

#include "absl/strings/string_view.h"
#include "unicode/utf8.h"

namespace comera::trainer {
namespace {

// `bytes` with U+FFFD in place of what is not UTF-8.
std::string ValidUtf8(absl::string_view bytes) {
  std::string text;
  const int64_t size = static_cast<int64_t>(bytes.size());
  for (int64_t i = 0; i < size;) {
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(bytes.data(), i, size, c);
    char character[U8_MAX_LENGTH];
    int32_t length = 0;
    U8_APPEND_UNSAFE(character, length, c);
    text.append(character, length);
  }
  return text;
}

}  // namespace

TextStream::TextStream(const Tokenizer* tokenizer, Start start)
    : tokenizer_(*tokenizer),
      drop_space_(start == Start::kText && tokenizer->adds_first_space()) {}

std::string TextStream::Add(int32_t id) {
  if (id < 0 || id >= tokenizer_.vocabulary_size()) return "";
  tokenizer_.AppendBytes(id, &bytes_);
  if (bytes_.empty()) return "";
  if (drop_space_ && bytes_[0] == ' ') bytes_.erase(0, 1);
  drop_space_ = false;
  int64_t complete = static_cast<int64_t>(bytes_.size());
  U8_TRUNCATE_IF_INCOMPLETE(bytes_.data(), 0, complete);
  std::string text = ValidUtf8(
      absl::string_view(bytes_).substr(0, static_cast<size_t>(complete)));
  bytes_.erase(0, static_cast<size_t>(complete));
  return text;
}

std::string TextStream::Finish() {
  std::string text = ValidUtf8(bytes_);
  bytes_.clear();
  drop_space_ = false;
  return text;
}

}  // namespace comera::trainer
