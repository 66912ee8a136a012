// Checks the CLI's formats of numbers, times, states and tables.

#include "client/cli/output/style.h"
#include "client/cli/output/table.h"
#include "client/cli/output/terminal_text.h"
#include "client/cli/output/text_format.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::HasSubstr;

const TableRows kJobs = {
    {"ID", "NAME", "STATE", "PRIO", "REASON"},
    {"4f2x7k3m5q6a", "nightly-run", "RUNNING", "0", "on 2 workers"},
    {"9s1d0p8w6e2r", "日本語", "FAILED (DATA)", "10",
     "cannot read /data/mnli/train.tsv"}};

std::string Table(const TableLayout& layout) {
  return FormatTable(kJobs, layout, {"PRIO"}).value();
}

TEST(DisplayWidth, CountsWhatATerminalShows) {
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("é→…"), 3u);
  EXPECT_EQ(DisplayWidth("日本"), 4u);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1u);  // e and a combining accent
  EXPECT_EQ(DisplayWidth("🚀"), 2u);
  EXPECT_EQ(DisplayWidth("\xff\xfe"), 2u);  // no UTF-8
  EXPECT_EQ(DisplayWidth(""), 0u);
}

TEST(DisplayWidth, CutsBetweenCharacters) {
  EXPECT_EQ(CutToWidth("日本語", 5), "日本");
  EXPECT_EQ(Shortened("日本語", 5), "日本…");
  EXPECT_EQ(Shortened("日本語", 6), "日本語");
  EXPECT_EQ(Shortened("abc", 1), "…");
  EXPECT_EQ(Shortened("abc", 0), "");
  EXPECT_EQ(CutToWidth("e\u0301x", 1), "e\u0301");
}

TEST(Printable, TakesWhatTerminalsObey) {
  EXPECT_EQ(Printable("a\x1b[31m\u202Eb"), "a [31m   b");
  EXPECT_EQ(Printable("→…日"), "→…日");
}

TEST(TerminalText, KeepsLinesAndTakesWhatTerminalsObey) {
  EXPECT_EQ(ForTerminal("a\tb\r\nc\n"), "a\tb\nc\n");
  // Sets the clipboard, the title, and hides a line.
  EXPECT_EQ(ForTerminal("\x1b]52;c;cm0=\x07!"), " ]52;c;cm0= !");
  EXPECT_EQ(ForTerminal("\u009b2J"), "  2J");
  EXPECT_EQ(ForTerminal("rm -rf\rls"), "rm -rf\nls");
  EXPECT_EQ(ForTerminal("\x9b"
                        "2J\xff"),
            "\uFFFD2J\uFFFD");
}

TEST(TerminalText, PiecesMayEndWithinACharacter) {
  const std::string text = "日\u009b1m\r\n\U0001F680\xe2\x82";
  const std::string safe = "日  1m\n\U0001F680\uFFFD";
  EXPECT_EQ(ForTerminal(text), safe);
  for (size_t n = 1; n <= text.size(); ++n) {
    TerminalText shown;
    std::string all;
    for (size_t i = 0; i < text.size(); i += n) {
      all += shown.Add(text.substr(i, n));
    }
    EXPECT_EQ(all + shown.End(), safe) << "pieces of " << n;
  }
}

TEST(Table, AlignsByColumnsAndEndsWithoutBlanks) {
  EXPECT_EQ(Table({}),
            "ID            NAME         STATE          PRIO  REASON\n"
            "4f2x7k3m5q6a  nightly-run  RUNNING        0     on 2 workers\n"
            "9s1d0p8w6e2r  日本語       FAILED (DATA)  10    "
            "cannot read /data/mnli/train.tsv\n");
}

TEST(Table, FitsEveryWidthThatHoldsNameAndState) {
  for (int width = 22; width < 100; ++width) {
    TableLayout layout;
    layout.width = width;
    const std::string text = Table(layout);
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t end = text.find('\n', begin);
      EXPECT_LE(DisplayWidth(text.substr(begin, end - begin)),
                static_cast<size_t>(width))
          << text;
      begin = end + 1;
    }
    // Names stay whole, so that they can be copied, and states are shown.
    EXPECT_THAT(text, HasSubstr("4f2x7k3m5q6a"));
    EXPECT_THAT(text, HasSubstr("RUNNING"));
  }
}

TEST(Table, LeavesOutTheDispensableFirst) {
  TableLayout layout;
  layout.width = 50;
  EXPECT_EQ(Table(layout),
            "ID            NAME       STATE          REASON\n"
            "4f2x7k3m5q6a  nightly-…  RUNNING        on 2 work…\n"
            "9s1d0p8w6e2r  日本語     FAILED (DATA)  cannot re…\n");
}

TEST(Table, ColumnsThatAreNamedStay) {
  TableLayout layout;
  layout.columns = {"reason", "id"};
  layout.headers = false;
  layout.width = 30;
  EXPECT_EQ(Table(layout),
            "on 2 workers      4f2x7k3m5q6a\n"
            "cannot read /da…  9s1d0p8w6e2r\n");
  layout.columns = {"nothing"};
  EXPECT_THAT(FormatTable(kJobs, layout),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Table, ColoursRepeatWhatIsWritten) {
  TableLayout layout;
  layout.color = true;
  const std::string text = Table(layout);
  EXPECT_THAT(text, HasSubstr("\x1b[36mRUNNING\x1b[0m"));
  EXPECT_THAT(text, HasSubstr("\x1b[31mFAILED (DATA)\x1b[0m"));
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      plain += text[i];
    }
  }
  EXPECT_EQ(plain, Table({}));
}

TEST(Table, OfNothingIsNothing) {
  EXPECT_EQ(FormatTable(TableRows(), TableLayout()).value(), "");
  TableLayout layout;
  layout.width = 10;
  EXPECT_EQ(FormatTable(TableRows{{"A"}}, layout).value(), "A\n");
  // A row with too few cells.
  EXPECT_EQ(FormatTable(TableRows{{"A", "B"}, {"1"}}, layout).value(),
            "A  B\n1\n");
}

TEST(Style, TheStrongestWishDecidesAboutColours) {
  ColorChoice choice;
  EXPECT_FALSE(UseColor(choice));
  choice.terminal = true;
  EXPECT_TRUE(UseColor(choice));
  choice.no_color = true;
  EXPECT_FALSE(UseColor(choice));
  choice.force_color = true;
  EXPECT_FALSE(UseColor(choice));
  choice.flag = "always";
  EXPECT_TRUE(UseColor(choice));
  choice = ColorChoice();
  choice.force_color = true;
  EXPECT_TRUE(UseColor(choice));
  choice.flag = "never";
  EXPECT_FALSE(UseColor(choice));
}

TEST(Style, LinesAreCutBetweenSpans) {
  const StyledLine line = {{"ab", Tone::kGood}, {"cd", Tone::kPlain}};
  EXPECT_EQ(Paint(CutLine(line, 3), true), "\x1b[32mab\x1b[0mc");
  EXPECT_EQ(PlainText(CutLine(line, 0)), "");
  EXPECT_EQ(PlainText(CutLine({{"a日", Tone::kPlain}, {"b"}}, 2)), "a");
}

}  // namespace
}  // namespace comera::client
