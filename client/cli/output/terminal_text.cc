// Replaces control characters in streams of text.

#include "client/cli/output/terminal_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/cli/output/text_format.h"
#include "unicode/utf8.h"

namespace comera::client {
namespace {

// The number of bytes of the last character if its end is missing, or of a
// carriage return, whose line feed may follow.
size_t HeldBytes(std::string_view text) {
  if (!text.empty() && text.back() == '\r') return 1;
  for (size_t n = 1; n <= std::min<size_t>(text.size(), 3); ++n) {
    const auto byte = static_cast<uint8_t>(text[text.size() - n]);
    if (U8_IS_LEAD(byte)) {
      return static_cast<size_t>(U8_COUNT_TRAIL_BYTES(byte)) >= n ? n : 0;
    }
    if (!U8_IS_TRAIL(byte)) return 0;
  }
  return 0;
}

std::string Safe(std::string_view text) {
  std::string safe;
  const auto size = static_cast<int32_t>(text.size());
  int32_t i = 0;
  while (i < size) {
    const int32_t begin = i;
    UChar32 character = 0;
    U8_NEXT(text.data(), i, size, character);
    const std::string_view bytes = text.substr(begin, i - begin);
    if (character < 0) {
      safe += "\uFFFD";
    } else if (character == '\r') {
      if (i == size || text[i] != '\n') safe += '\n';
    } else if (character == '\n' || character == '\t') {
      safe.append(bytes);
    } else {
      safe.append(Printable(bytes));
    }
  }
  return safe;
}

}  // namespace

std::string TerminalText::Add(std::string_view piece) {
  held_.append(piece);
  const size_t ready = held_.size() - HeldBytes(held_);
  const std::string safe = Safe(std::string_view(held_).substr(0, ready));
  held_.erase(0, ready);
  return safe;
}

std::string TerminalText::End() {
  const std::string safe = Safe(held_);
  held_.clear();
  return safe;
}

std::string ForTerminal(std::string_view text) { return Safe(text); }

}  // namespace comera::client
