// Tests the rules of a SentencePiece model.
#include "worker/trainer/data/tokenizer/sentencepiece/character_map.h"

#include <string>

#include "common/status_matchers.h"
#include "tests/worker/trainer/data/tokenizer/small_files.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

CharacterMap Parse(const std::string& bytes) {
  auto map = CharacterMap::Parse(bytes);
  EXPECT_OK(map);
  return *std::move(map);
}

TEST(CharacterMapTest, LongestRule) {
  const CharacterMap map = Parse(SmallCharacterMap(
      {{"a", "x"}, {"abc", "\u00e9y"}, {"\u00e9", ""}, {"\u3000", " "}}));
  EXPECT_EQ(map.Longest("abd").length, 1u);
  EXPECT_EQ(map.Longest("abd").replacement, "x");
  EXPECT_EQ(map.Longest("abcd").length, 3u);
  EXPECT_EQ(map.Longest("abcd").replacement, "\u00e9y");
  EXPECT_EQ(map.Longest("\u00e9").length, 2u);
  EXPECT_EQ(map.Longest("\u00e9").replacement, "");
  EXPECT_EQ(map.Longest("\u3000").replacement, " ");
  EXPECT_EQ(map.Longest("\u3001").length, 0u);
  EXPECT_EQ(map.Longest("b").length, 0u);
  EXPECT_EQ(map.Longest("").length, 0u);
  EXPECT_EQ(map.Longest(std::string("\0", 1)).length, 0u);
}

TEST(CharacterMapTest, WithoutRules) {
  EXPECT_EQ(Parse("").Longest("a").length, 0u);
}

TEST(CharacterMapTest, Malformed) {
  const std::string good = SmallCharacterMap({{"a", "b"}});
  for (const std::string& bytes :
       {std::string("abc"), std::string(4, '\0'),
        std::string("\5\0\0\0abcde", 9), good.substr(0, good.size() / 2),
        std::string("\xff\xff\xff\xff", 4), good + "\xff"}) {
    EXPECT_THAT(CharacterMap::Parse(bytes),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("precompiled_charsmap")));
  }
}

// Whatever an array holds, a search stays inside of it.
TEST(CharacterMapTest, RandomArrays) {
  uint32_t state = 7;
  const auto next = [&state] {
    state = state * 1664525 + 1013904223;
    return static_cast<char>(state >> 24);
  };
  for (int i = 0; i < 200; ++i) {
    std::string bytes = SmallCharacterMap({{"ab", "b"}, {"ac", "\u00e9"}});
    for (int j = 0; j < 200; ++j) {
      const size_t at = 4 + (static_cast<size_t>(j) * 2654435761u + i * 97) %
                                (bytes.size() - 9);
      bytes[at] = next();
    }
    const auto map = CharacterMap::Parse(bytes);
    if (!map.ok()) continue;
    for (int j = 0; j < 200; ++j) {
      const std::string text = {next(), next(), next(), next()};
      EXPECT_LE(map->Longest(text).length, text.size());
    }
    map->Longest("ab");
    map->Longest("ac");
  }
}

}  // namespace
}  // namespace comera::trainer
