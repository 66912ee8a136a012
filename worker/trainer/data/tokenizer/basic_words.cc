// Splits a text into words as BERT's basic tokenizer does.
#include "worker/trainer/data/tokenizer/basic_words.h"

#include <cstdint>

#include "unicode/normalizer2.h"
#include "unicode/uchar.h"
#include "unicode/unistr.h"
#include "unicode/utf8.h"

namespace comera::trainer {
namespace {

bool IsAsciiPunctuation(unsigned char c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126);
}

// The blocks of ideographs that BERT sets apart.
bool IsCjk(UChar32 c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B820 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void Append(UChar32 c, std::string* out) {
  char bytes[U8_MAX_LENGTH];
  int32_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, c);
  out->append(bytes, size);
}

// Each byte stands for itself while text is ASCII.
void AppendAscii(unsigned char c, bool lowercase, std::string* out) {
  if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
    out->push_back(' ');
  } else if (c < 0x20 || c == 0x7f) {
    return;
  } else if (IsAsciiPunctuation(c)) {
    out->push_back(' ');
    out->push_back(static_cast<char>(c));
    out->push_back(' ');
  } else {
    out->push_back(
        static_cast<char>(lowercase && c >= 'A' && c <= 'Z' ? c | 0x20 : c));
  }
}

// Cleaned text: what comes before lower case and punctuation.
icu::UnicodeString Clean(absl::string_view text, bool lowercase) {
  icu::UnicodeString cleaned;
  const int64_t size = static_cast<int64_t>(text.size());
  for (int64_t i = 0; i < size;) {
    UChar32 c = 0;
    U8_NEXT(text.data(), i, size, c);
    if (c <= 0 || c == 0xFFFD) continue;
    if (c == '\t' || c == '\n' || c == '\r' || u_isUWhiteSpace(c)) {
      // U+0085 and the like are controls, which are dropped.
      if (c < 0x80 ? (c == ' ' || c == '\t' || c == '\n' || c == '\r')
                   : u_charType(c) != U_CONTROL_CHAR) {
        cleaned.append(static_cast<UChar32>(' '));
      }
    } else if (U_GET_GC_MASK(c) & U_GC_C_MASK) {
      continue;
    } else if (IsCjk(c)) {
      cleaned.append(static_cast<UChar32>(' '));
      cleaned.append(c);
      cleaned.append(static_cast<UChar32>(' '));
    } else {
      cleaned.append(lowercase ? u_tolower(c) : c);
    }
  }
  return cleaned;
}

}  // namespace

std::string BasicWords(absl::string_view text, bool lowercase) {
  std::string words;
  words.reserve(text.size() + text.size() / 4);
  size_t ascii = 0;
  while (ascii < text.size() &&
         static_cast<unsigned char>(text[ascii]) < 0x80) {
    AppendAscii(text[ascii++], lowercase, &words);
  }
  if (ascii == text.size()) return words;

  // Accents may follow ASCII letters, so text is taken as a whole.
  words.clear();
  icu::UnicodeString cleaned = Clean(text, lowercase);
  if (lowercase) {
    UErrorCode error = U_ZERO_ERROR;
    const icu::Normalizer2* const nfd = icu::Normalizer2::getNFDInstance(error);
    if (U_SUCCESS(error)) {
      icu::UnicodeString decomposed = nfd->normalize(cleaned, error);
      if (U_SUCCESS(error)) cleaned = std::move(decomposed);
    }
  }
  for (int32_t i = 0; i < cleaned.length();) {
    const UChar32 c = cleaned.char32At(i);
    i += U16_LENGTH(c);
    if (lowercase && u_charType(c) == U_NON_SPACING_MARK) continue;
    const bool punctuation =
        c < 0x80 ? IsAsciiPunctuation(static_cast<unsigned char>(c))
                 : (U_GET_GC_MASK(c) & U_GC_P_MASK) != 0;
    if (punctuation) words.push_back(' ');
    Append(c, &words);
    if (punctuation) words.push_back(' ');
  }
  return words;
}

}  // namespace comera::trainer
