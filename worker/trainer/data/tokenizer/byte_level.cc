// GPT-2's alphabet of bytes and its splitting into words.
#include "worker/trainer/data/tokenizer/byte_level.h"

#include "unicode/uchar.h"
#include "unicode/utf8.h"

namespace comera::trainer {
namespace {

std::string EncodeUtf8(UChar32 c) {
  char bytes[U8_MAX_LENGTH];
  int32_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, c);
  return std::string(bytes, size);
}

std::array<std::string, 256> MakeByteCharacters() {
  std::array<std::string, 256> characters;
  UChar32 next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) ||
                           (byte >= 161 && byte <= 172) || byte >= 174;
    characters[byte] = EncodeUtf8(printable ? byte : next++);
  }
  return characters;
}

}  // namespace

const std::array<std::string, 256>& ByteCharacters() {
  static const auto* const characters =
      new std::array<std::string, 256>(MakeByteCharacters());
  return *characters;
}

void AppendTokenBytes(absl::string_view token, std::string* bytes) {
  // The last of ByteCharacters() is U+0143.
  static const auto* const values = [] {
    auto* const made = new std::array<int16_t, 0x144>;
    made->fill(-1);
    for (int byte = 0; byte < 256; ++byte) {
      const std::string& character = ByteCharacters()[byte];
      int32_t i = 0;
      UChar32 c = 0;
      U8_NEXT_UNSAFE(character.data(), i, c);
      (*made)[c] = static_cast<int16_t>(byte);
    }
    return made;
  }();
  const int64_t size = static_cast<int64_t>(token.size());
  for (int64_t i = 0; i < size;) {
    UChar32 c = 0;
    U8_NEXT(token.data(), i, size, c);
    const bool known = c >= 0 && c < static_cast<UChar32>(values->size());
    if (known && (*values)[c] >= 0) {
      bytes->push_back(static_cast<char>((*values)[c]));
    }
  }
}

WordSplitter::Class WordSplitter::Classify(size_t position,
                                           size_t* next) const {
  const unsigned char byte = text_[position];
  if (byte < 0x80) {
    *next = position + 1;
    if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') return Class::kLetter;
    if (byte >= '0' && byte <= '9') return Class::kNumber;
    if (byte == ' ' || (byte >= '\t' && byte <= '\r')) return Class::kSpace;
    return Class::kOther;
  }
  int64_t i = static_cast<int64_t>(position);
  UChar32 c = 0;
  U8_NEXT(text_.data(), i, static_cast<int64_t>(text_.size()), c);
  if (c < 0) {
    *next = position + 1;
    return Class::kOther;
  }
  *next = static_cast<size_t>(i);
  const uint32_t category = U_GET_GC_MASK(c);
  if (category & U_GC_L_MASK) return Class::kLetter;
  if (category & U_GC_N_MASK) return Class::kNumber;
  return u_isUWhiteSpace(c) ? Class::kSpace : Class::kOther;
}

size_t WordSplitter::RunEnd(size_t position, Class kind) const {
  while (position < text_.size()) {
    size_t next = 0;
    if (Classify(position, &next) != kind) break;
    position = next;
  }
  return position;
}

size_t WordSplitter::SpaceEnd(size_t start) const {
  size_t last = start;  // where the run's last character starts
  size_t end = start;
  while (end < text_.size()) {
    size_t next = 0;
    if (Classify(end, &next) != Class::kSpace) break;
    last = end;
    end = next;
  }
  // \s+(?!\S) gives the last space back to the word that follows it.
  return end == text_.size() || last == start ? end : last;
}

size_t WordSplitter::ContractionLength() const {
  const absl::string_view rest = text_.substr(position_ + 1, 2);
  if (rest.empty()) return 0;
  if (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd') {
    return 2;
  }
  return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
}

bool WordSplitter::Next(absl::string_view* word) {
  if (position_ >= text_.size()) return false;
  const size_t start = position_;
  size_t end = 0;
  size_t next = 0;
  Class kind = Classify(start, &next);
  if (text_[start] == '\'' && (end = ContractionLength()) != 0) {
    end += start;
  } else {
    // One ASCII space belongs to the word that follows it.
    if (text_[start] == ' ' && next < text_.size()) {
      size_t after = 0;
      kind = Classify(next, &after);
    }
    end = kind == Class::kSpace ? SpaceEnd(start) : RunEnd(next, kind);
  }
  *word = text_.substr(start, end - start);
  position_ = end;
  return true;
}

}  // namespace comera::trainer
