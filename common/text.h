#ifndef COMERA_COMMON_TEXT_H_
#define COMERA_COMMON_TEXT_H_

#include <string>
#include <string_view>

namespace comera {

// Cuts `text` to at most `max_bytes` without splitting a UTF-8 character,
// because protobuf refuses strings that are not UTF-8.
inline std::string TruncateUtf8(std::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) {
    size_t end = max_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
      --end;
    }
    text = text.substr(0, end);
  }
  return std::string(text);
}

}  // namespace comera

#endif  // COMERA_COMMON_TEXT_H_
