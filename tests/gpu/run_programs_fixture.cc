// A GoogleTest program whose tests end in every way there is; the test of
// run_programs.sh picks among them by its name: fixture_FILTER, without the
// special characters of a filter.
#include <csignal>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

namespace {

TEST(Good, One) {}
TEST(Good, Two) {}
TEST(Good, DISABLED_Three) { FAIL(); }
TEST(Skips, One) { GTEST_SKIP() << "there is no second device"; }
TEST(Bad, One) { EXPECT_EQ(1, 2) << "as it must"; }
TEST(Crash, One) { std::raise(SIGKILL); }
TEST(Hang, One) {
  volatile bool forever = true;
  while (forever) {
  }
}
TEST(Shared, One) { EXPECT_STREQ(std::getenv("COMERA_SHARED_DIR"), "/shared"); }

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::string name = argv[0];
  std::string filter;
  for (const char* suite :
       {"Good", "Skips", "Bad", "Crash", "Hang", "Shared", "None"}) {
    if (name.find(suite) != std::string::npos) {
      filter += std::string(suite) + ".*:";
    }
  }
  if (::testing::GTEST_FLAG(filter) == "*") {
    ::testing::GTEST_FLAG(filter) = filter;
  }
  const int status = RUN_ALL_TESTS();
  return name.find("Exit7") == std::string::npos ? status : 7;
}
