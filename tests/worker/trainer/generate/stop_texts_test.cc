// Tests stop texts in a text that comes in pieces.
#include "worker/trainer/generate/stop_texts.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

TEST(StopTextsTest, HoldsBackWhatMayBeAStop) {
  StopTexts stops({"\nUser:", "###"});
  EXPECT_EQ(stops.Add("Hello\nUs"), "Hello");
  EXPECT_EQ(stops.Add("e"), "");
  EXPECT_EQ(stops.Add(" it #"), "\nUse it ");
  EXPECT_EQ(stops.Add("#"), "");
  EXPECT_EQ(stops.Add("# more"), "");
  EXPECT_TRUE(stops.found());
  EXPECT_EQ(stops.Add("after"), "");
  EXPECT_EQ(stops.Finish(), "");
}

TEST(StopTextsTest, FinishGivesWhatWasHeldBack) {
  StopTexts stops({"abc"});
  EXPECT_EQ(stops.Add("xab"), "x");
  EXPECT_EQ(stops.Finish(), "ab");
  EXPECT_FALSE(stops.found());
  StopTexts none({});
  EXPECT_EQ(none.Add("anything"), "anything");
  EXPECT_EQ(none.Finish(), "");
}

// What passes in all, and how the text ended.
std::string Passed(const std::vector<std::string>& stops,
                   const std::string& text, size_t piece) {
  StopTexts filter(stops);
  std::string passed;
  for (size_t i = 0; i < text.size(); i += piece) {
    passed += filter.Add(text.substr(i, piece));
  }
  passed += filter.Finish();
  return passed + (filter.found() ? "|" : "");
}

TEST(StopTextsTest, ThePiecesDoNotMatter) {
  struct Case {
    std::vector<std::string> stops;
    std::string text, passed;
  };
  for (const Case& c : std::vector<Case>{
           {{"abab"}, "aababab", "a|"},
           {{"aab"}, "aaaaab", "aaa|"},
           // The one that is complete first, not the one that begins first.
           {{"abcd", "c"}, "xabcd", "xab|"},
           {{"abcd", "cd"}, "xabcd", "x|"},
           {{"q"}, "nothing", "nothing"},
           {{"x"}, "x", "|"},
           {{"abc", "b"}, "aaabc", "aaa|"}}) {
    for (size_t piece = 1; piece <= c.text.size(); ++piece) {
      EXPECT_EQ(Passed(c.stops, c.text, piece), c.passed)
          << c.text << " in pieces of " << piece;
    }
  }
}

}  // namespace
}  // namespace comera::trainer
