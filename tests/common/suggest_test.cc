// Checks which misspelt words get a suggestion.

#include "common/suggest.h"

#include "gtest/gtest.h"

namespace comera {
namespace {

TEST(SuggestTest, FindsTheNearestOrNothing) {
  const std::vector<std::string> verbs = {"submit", "watch", "wait", "ls"};
  EXPECT_EQ(Nearest("sumbit", verbs), "submit");
  EXPECT_EQ(Nearest("watc", verbs), "watch");
  EXPECT_EQ(Nearest("frobnicate", verbs), "");
  EXPECT_EQ(Nearest("", verbs), "");
  EXPECT_EQ(Nearest(std::string(1000, 's'), verbs), "");
  EXPECT_EQ(DidYouMean("submti", verbs), " (did you mean `submit`?)");
  EXPECT_EQ(DidYouMean("zzzzzz", verbs), "");
}

}  // namespace
}  // namespace comera
