// Checks the roff of manual pages and what they contain.

#include "client/cli/shell/man_page.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ManPage, EscapesWhatRoffObeys) {
  ManPage page;
  page.name = "comera-x";
  page.summary = "a \\ and 'quotes'";
  page.description = ".TH is text\nand -x too: loss → size";
  page.examples = "  comera x --flag\n.hidden\n\n'quoted";
  const std::string roff = Roff(page);
  EXPECT_THAT(roff, HasSubstr("a \\e and \\(aqquotes\\(aq"));
  EXPECT_THAT(roff, HasSubstr("\n\\&.TH is text\n"));
  EXPECT_THAT(roff, HasSubstr("and \\-x too: loss \\[u2192] size"));
  EXPECT_THAT(roff, HasSubstr("\n  comera x \\-\\-flag\n\\&.hidden\n\\&\n"));
  EXPECT_THAT(roff, HasSubstr("\n\\(aqquoted\n"));
  for (const char c : roff) EXPECT_GE(c, 0) << roff;
}

TEST(ManPage, OfAVerbHasItsArguments) {
  std::string text;
  std::vector<std::string> words;
  const std::vector<Verb> verbs = {
      {"go",
       "Go there",
       {{"where", "Which way", &text, true, {"left", "right"}},
        {"more", "Others", &words},
        {"-f,--fast", "Quickly", &text, false, {"yes", "no"}}},
       nullptr,
       "  comera go left"}};
  const auto pages = CliPages(verbs, {{"--server", "Coordinator", &text}});
  ASSERT_EQ(pages.size(), 2u);
  EXPECT_EQ(pages[0].name, "comera");
  EXPECT_THAT(Roff(pages[0]), HasSubstr("\\fBcomera\\-go\\fR(1)"));
  EXPECT_EQ(pages[1].synopsis, "comera go [OPTIONS] WHERE [MORE...]");
  const std::string roff = Roff(pages[1]);
  EXPECT_THAT(roff, HasSubstr("\\fB\\-f, \\-\\-fast yes|no\\fR\nQuickly\n"));
  EXPECT_THAT(roff, HasSubstr("Which way (one of left, right)"));
  EXPECT_THAT(roff, HasSubstr("\\fB\\-\\-server TEXT\\fR"));
}

TEST(ManPage, ReadsTheHelpOfOtherPrograms) {
  const ManPage page = PageFromHelp(
      "comera-server", 8,
      "Coordinator of comera: accepts jobs.\n"
      "Usage: /somewhere/comera-server [OPTIONS]\n\nOptions:\n"
      "  -h,--help                   Print this help message and exit\n"
      "  --listen TEXT=127.0.0.1:7400\n"
      "                              Address for gRPC\n"
      "  --store TEXT=sqlite         sqlite: a file\n");
  EXPECT_EQ(page.summary, "Coordinator of comera: accepts jobs");
  ASSERT_EQ(page.options.size(), 3u);
  EXPECT_EQ(page.options[0].term, "-h,--help");
  EXPECT_EQ(page.options[1].term, "--listen TEXT=127.0.0.1:7400");
  EXPECT_EQ(page.options[1].text, "Address for gRPC");
  EXPECT_EQ(page.options[2].text, "sqlite: a file");
  EXPECT_THAT(Roff(page), Not(HasSubstr("somewhere")));
}

}  // namespace
}  // namespace comera::client
