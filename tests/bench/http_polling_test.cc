// Runs http_polling briefly against a real server and checks its figures.

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"

namespace comera::bench {
namespace {

TEST(HttpPollingTest, CarriesASmallLoadAndTellsItInOneObject) {
  const std::string root = absl::StrCat(std::getenv("TEST_SRCDIR"), "/comera/");
  e2e::Process polling(
      {root + "tests/bench/http_polling", "--pollers=50", "--jobs=3",
       "--seconds=2", "--streams=20",
       absl::StrCat("--folder=", ::testing::TempDir()),
       absl::StrCat("--binary=", root, "server/comera-server"), "--json"},
      ::testing::TempDir() + "/http_polling.log");
  const auto line = polling.ReadLine(absl::Seconds(60));
  ASSERT_TRUE(line);
  const auto result = nlohmann::json::parse(*line, nullptr, false);
  ASSERT_TRUE(result.is_object()) << *line;
  EXPECT_EQ(polling.Wait(absl::Seconds(30)), 0);
  EXPECT_EQ(result["unchanged"]["answers"], 100);
  // All answers but each poller's first, or nearly all, are 304.
  EXPECT_GE(result["unchanged"]["share_304"], 0.3);
  EXPECT_LE(result["unchanged"]["share_304"], 0.5);
  EXPECT_LE(result["training"]["share_304"], 0.5);
  EXPECT_EQ(result["list"]["answers"], 100);
  EXPECT_EQ(result["streams"]["streams"], 20);
}

}  // namespace
}  // namespace comera::bench
