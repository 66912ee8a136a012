// Log lines: their form, what is evaluated, and the end of the process.
#include "common/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace comera {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string Logged(const std::function<void()>& log) {
  testing::internal::CaptureStderr();
  log();
  return testing::internal::GetCapturedStderr();
}

constexpr char kPrefix[] =
    "[0-9]{8} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6} +[0-9]+ "
    "log_test\\.cc:[0-9]+\\] ";

TEST(Log, ALineHasSeverityTimeThreadAndPlace) {
  EXPECT_THAT(
      Logged([] { LOG(INFO) << "event=started jobs=" << 3; }),
      MatchesRegex(absl::StrCat("I", kPrefix, "event=started jobs=3\n")));
  EXPECT_THAT(Logged([] { LOG(WARNING) << "w"; }),
              MatchesRegex(absl::StrCat("W", kPrefix, "w\n")));
  EXPECT_THAT(Logged([] { LOG(ERROR) << "e"; }),
              MatchesRegex(absl::StrCat("E", kPrefix, "e\n")));
}

TEST(Log, TextIsNoFormat) {
  EXPECT_THAT(Logged([] { LOG(INFO) << "{} {0} %s {"; }),
              HasSubstr("] {} {0} %s {\n"));
}

TEST(Log, AConditionThatDoesNotHoldEvaluatesNothing) {
  int evaluated = 0;
  EXPECT_EQ(Logged([&] { LOG_IF(ERROR, false) << ++evaluated; }), "");
  EXPECT_EQ(evaluated, 0);
  EXPECT_THAT(Logged([&] { LOG_IF(ERROR, true) << ++evaluated; }),
              HasSubstr("] 1\n"));
}

TEST(Log, EveryNthBeginsWithTheFirst) {
  const std::string text = Logged([] {
    for (int i = 0; i < 7; ++i) LOG_EVERY_N(INFO, 3) << "i=" << i;
  });
  const std::vector<std::string> lines =
      absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], HasSubstr("i=0"));
  EXPECT_THAT(lines[1], HasSubstr("i=3"));
  EXPECT_THAT(lines[2], HasSubstr("i=6"));
}

TEST(Log, MacrosBindToTheirOwnElse) {
  const auto log = [](bool outer) {
    if (outer)
      LOG_IF(INFO, false) << "no";
    else
      LOG(INFO) << "else";
  };
  EXPECT_EQ(Logged([&] { log(true); }), "");
  EXPECT_THAT(Logged([&] { log(false); }), HasSubstr("else"));
}

TEST(Log, LinesOfSeveralThreadsAreWhole) {
  const std::string text = Logged([] {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([] {
        for (int i = 0; i < 100; ++i) LOG(INFO) << std::string(200, 'x');
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  const std::vector<std::string> lines =
      absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 400u);
  for (const std::string& line : lines) {
    EXPECT_THAT(line, MatchesRegex(absl::StrCat("I", kPrefix, "x{200}")));
  }
}

TEST(LogDeathTest, FatalEndsTheProcess) {
  EXPECT_DEATH(LOG(FATAL) << "gone", "F.*log_test\\.cc:[0-9]+\\] gone");
}

TEST(LogDeathTest, ACheckThatFailsNamesItsCondition) {
  const int jobs = 1;
  CHECK(jobs == 1) << "not evaluated";
  EXPECT_DEATH(CHECK(jobs == 2) << "jobs=" << jobs,
               "F.*Check failed: jobs == 2 jobs=1");
}

}  // namespace
}  // namespace comera
