// Tests BERT's splitting of texts into words.
#include "worker/trainer/data/tokenizer/basic_words.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using Words = std::vector<std::string>;

Words Split(const std::string& text, bool lowercase = true) {
  return absl::StrSplit(BasicWords(text, lowercase), ' ', absl::SkipEmpty());
}

struct Row {
  std::string text;
  Words words;
};

TEST(BasicWordsTest, Uncased) {
  const std::vector<Row> rows = {
      {"", {}},
      {" \tHeLLo!how  \n Are yoU?  ", {"hello", "!", "how", "are", "you", "?"}},
      {"H\u00E9llo", {"hello"}},
      {"ah\u535A\u63A8zz", {"ah", "\u535A", "\u63A8", "zz"}},
      {"don't", {"don", "'", "t"}},
      {"a-b_c$d^e`f", {"a", "-", "b", "_", "c", "$", "d", "^", "e", "`", "f"}},
      {"[MASK] [CLS]", {"[", "mask", "]", "[", "cls", "]"}},
      {std::string("a\0b\x01\x7f"
                   "c\x0b",
                   7),
       {"abc"}},
      {"zero\u200bwidth\ufeff", {"zerowidth"}},
      {"bad\ufffd\xff\xc3", {"bad"}},
      {"no\u00a0break\u3000wide", {"no", "break", "wide"}},
      {"line\u2028end", {"line", "end"}},
      {"\u0130stanbul", {"istanbul"}},   // dotted capital I
      {"stra\u00dfe", {"stra\u00dfe"}},  // sharp s stays
      {"\ufb01ne", {"\ufb01ne"}},        // ligature: NFD keeps it
      {"e\u0301 n\u0303", {"e", "n"}},   // combining marks
      {"\u00c5ngstr\u00f6m", {"angstrom"}},
      {"\u0391\u0386", {"\u03b1\u03b1"}},  // Greek, with tonos
      {"\ud55c", {"\u1112\u1161\u11ab"}},  // Hangul becomes jamo
      {"\u201cquoted\u201d \u2026", {"\u201c", "quoted", "\u201d", "\u2026"}},
      {"5\u20ac", {"5\u20ac"}},  // a currency sign is a symbol
      {"smile\U0001F601!", {"smile\U0001F601", "!"}},
  };
  for (const Row& row : rows) EXPECT_EQ(Split(row.text), row.words) << row.text;
}

TEST(BasicWordsTest, CasedKeepsCaseAndAccents) {
  EXPECT_EQ(Split("H\u00E9LLO, World", false),
            Words({"H\u00E9LLO", ",", "World"}));
}

// A text takes the quick path only while it is ASCII: both must agree.
TEST(BasicWordsTest, AsciiPathAgreesWithUnicodePath) {
  std::string ascii;
  for (int c = 1; c < 128; ++c) ascii.push_back(static_cast<char>(c));
  Words slow = Split(ascii + " \u00e9");
  ASSERT_EQ(slow.back(), "e");
  slow.pop_back();
  EXPECT_EQ(Split(ascii), slow);
}

}  // namespace
}  // namespace comera::trainer
