// Tests the search for strings that a text begins with.
#include "worker/trainer/data/tokenizer/prefix_trie.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using Matches = std::vector<std::pair<size_t, int32_t>>;

Matches All(const PrefixTrie& trie, absl::string_view text) {
  Matches matches;
  trie.ForEachPrefix(text, [&](const PrefixTrie::Match& match) {
    matches.emplace_back(match.length, match.value);
  });
  return matches;
}

TEST(PrefixTrieTest, FindsEveryPrefix) {
  PrefixTrie trie;
  EXPECT_TRUE(trie.empty());
  EXPECT_EQ(trie.Longest("a").length, 0u);
  trie.Add("a", 7);
  trie.Add("abc", 0);
  trie.Add("b\xff", 2);
  trie.Add(std::string("\0x", 2), 3);
  EXPECT_FALSE(trie.empty());
  EXPECT_EQ(All(trie, "abcd"), (Matches{{1, 7}, {3, 0}}));
  EXPECT_EQ(All(trie, "abd"), (Matches{{1, 7}}));
  EXPECT_EQ(All(trie, "b\xff"), (Matches{{2, 2}}));
  EXPECT_EQ(All(trie, "b"), Matches());
  EXPECT_EQ(All(trie, ""), Matches());
  EXPECT_EQ(All(trie, std::string("\0xy", 3)), (Matches{{2, 3}}));
  EXPECT_EQ(trie.Longest("abcabc").length, 3u);
  EXPECT_EQ(trie.Longest("abcabc").value, 0);
}

TEST(PrefixTrieTest, LastValueHolds) {
  PrefixTrie trie;
  trie.Add("ab", 1);
  trie.Add("ab", 2);
  EXPECT_EQ(All(trie, "ab"), (Matches{{2, 2}}));
}

}  // namespace
}  // namespace comera::trainer
