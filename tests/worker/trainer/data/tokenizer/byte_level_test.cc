// Tests GPT-2's alphabet of bytes and its words.
#include "worker/trainer/data/tokenizer/byte_level.h"

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

std::vector<std::string> Words(absl::string_view text) {
  std::vector<std::string> words;
  WordSplitter splitter(text);
  absl::string_view word;
  while (splitter.Next(&word)) words.emplace_back(word);
  return words;
}

struct Row {
  std::string text;
  std::vector<std::string> words;
};

TEST(WordSplitterTest, AsTheRegularExpression) {
  const std::vector<Row> rows = {
      {"", {}},
      {"a", {"a"}},
      {" ", {" "}},
      {"Hello world", {"Hello", " world"}},
      {"Hello  world", {"Hello", " ", " world"}},
      {"a   b", {"a", "  ", " b"}},
      {"a\nb", {"a", "\n", "b"}},
      {"a\n\nb", {"a", "\n", "\n", "b"}},
      {"a\n  b", {"a", "\n ", " b"}},
      {"a \n", {"a", " \n"}},
      {"\t\tx", {"\t", "\t", "x"}},
      {"  ", {"  "}},
      {"x  ", {"x", "  "}},
      {"it's", {"it", "'s"}},
      {"it 's", {"it", " '", "s"}},
      {"we'll they've you're I'd I'm don't",
       {"we", "'ll", " they", "'ve", " you", "'re", " I", "'d", " I", "'m",
        " don", "'t"}},
      {"'sx", {"'s", "x"}},
      {"'S", {"'", "S"}},
      {"''s", {"''", "s"}},
      {"'", {"'"}},
      {"'r", {"'", "r"}},
      {"abc123", {"abc", "123"}},
      {"abc 123", {"abc", " 123"}},
      {"x=1;", {"x", "=", "1", ";"}},
      {" == ", {" ==", " "}},
      {"f(a,b):", {"f", "(", "a", ",", "b", "):"}},
      {"snake_case", {"snake", "_", "case"}},
      {"été 東京", {"été", " 東京"}},
      {"x²½", {"x", "²½"}},                // category No
      {"a\u00a0b", {"a", "\u00a0", "b"}},  // no-break space
      {"a\u2003\u2003b", {"a", "\u2003", "\u2003", "b"}},
      {"a\x1c z", {"a", "\x1c", " z"}},  // no White_Space in Unicode
      {"e\u0301", {"e", "\u0301"}},      // a mark is no letter
      {"😀 x", {"😀", " x"}},
      {"a\xff\xfe z", {"a", "\xff\xfe", " z"}},
      {"\xe6\x9d", {"\xe6\x9d"}},
  };
  for (const Row& row : rows) EXPECT_EQ(Words(row.text), row.words) << row.text;
}

TEST(WordSplitterTest, EveryByteOnce) {
  std::string text;
  uint32_t state = 12345;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525 + 1013904223;
    text.push_back(static_cast<char>(state >> 24));
  }
  std::string joined;
  for (const std::string& word : Words(text)) {
    ASSERT_FALSE(word.empty());
    joined += word;
  }
  EXPECT_EQ(joined, text);
}

TEST(ByteCharactersTest, AsGpt2) {
  EXPECT_EQ(ByteCharacters()['A'], "A");
  EXPECT_EQ(ByteCharacters()[' '], "Ġ");
  EXPECT_EQ(ByteCharacters()['\n'], "Ċ");
  EXPECT_EQ(ByteCharacters()['\t'], "ĉ");
  EXPECT_EQ(ByteCharacters()[0], "Ā");
  EXPECT_EQ(ByteCharacters()[0x7f], "ġ");
  EXPECT_EQ(ByteCharacters()[0xad], "Ń");
  EXPECT_EQ(ByteCharacters()[0xff], "ÿ");
  const std::set<std::string> distinct(ByteCharacters().begin(),
                                       ByteCharacters().end());
  EXPECT_EQ(distinct.size(), 256u);
}

}  // namespace
}  // namespace comera::trainer
