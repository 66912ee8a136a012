// Checks that text is UTF-8, and makes it printable for messages.
#include "worker/trainer/data/source/text.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "unicode/utf8.h"

namespace comera::trainer {

bool IsValidUtf8(absl::string_view text) {
  const char* data = text.data();
  const int64_t size = static_cast<int64_t>(text.size());
  int64_t i = 0;
  while (i < size) {
    // Most text is ASCII: eight bytes at a time.
    uint64_t word = 0;
    if (i + 8 <= size) {
      std::memcpy(&word, data + i, 8);
      if ((word & 0x8080808080808080u) == 0) {
        i += 8;
        continue;
      }
    }
    UChar32 c = 0;
    U8_NEXT(data, i, size, c);
    if (c < 0) return false;
  }
  return true;
}

namespace {

std::string Clean(absl::string_view text) {
  const bool clean =
      IsValidUtf8(text) && std::none_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
      });
  return clean ? std::string(text) : absl::CHexEscape(text);
}

}  // namespace

std::string Printable(absl::string_view text) {
  constexpr size_t kLimit = 80;
  if (text.size() <= kLimit) return Clean(text);
  // A cut may fall inside a character, of at most four bytes.
  size_t size = kLimit;
  while (size > kLimit - 3 && !IsValidUtf8(text.substr(0, size))) --size;
  return Clean(text.substr(0, size)) + "...";
}

std::string PrintablePath(absl::string_view path) { return Clean(path); }

std::string Place(absl::string_view path, int64_t line) {
  return absl::StrCat(PrintablePath(path), ":", line);
}

}  // namespace comera::trainer
