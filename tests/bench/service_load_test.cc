// Runs service_load briefly against a real server and checks its figures.

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"

namespace comera::bench {
namespace {

TEST(ServiceLoadTest, CarriesASmallLoadAndTellsItInOneObject) {
  const std::string root = absl::StrCat(std::getenv("TEST_SRCDIR"), "/comera/");
  e2e::Process load(
      {root + "tests/bench/service_load", "--submissions=300", "--clients=8",
       "--pollers=50", "--watchers=200", "--watched_jobs=5", "--report_ms=200",
       "--seconds=1", "--connections=4",
       absl::StrCat("--folder=", ::testing::TempDir()), "--json"},
      ::testing::TempDir() + "/service_load.log");
  const auto line = load.ReadLine(absl::Seconds(60));
  ASSERT_TRUE(line);
  const auto result = nlohmann::json::parse(*line, nullptr, false);
  ASSERT_TRUE(result.is_object()) << *line;
  EXPECT_EQ(load.Wait(absl::Seconds(30)), 0);
  EXPECT_EQ(result["submissions"]["jobs"], 300);
  EXPECT_GT(result["submissions"]["per_second"], 0);
  EXPECT_EQ(result["status"]["reads"], 50);
  EXPECT_EQ(result["watch"]["streams"], 200);
  // Five jobs, each with 40 streams, make five reports in the second; some may
  // fall outside of it.
  EXPECT_GE(result["watch"]["events_delivered"], 200);
  EXPECT_GT(result["watch"]["server_rss_bytes"], 0);
}

TEST(ServiceLoadTest, WorkersComeBackToAKilledCoordinator) {
  const std::string root = absl::StrCat(std::getenv("TEST_SRCDIR"), "/comera/");
  e2e::Process load({root + "tests/bench/service_load", "--workers=20",
                     "--clients=8", "--connections=4",
                     absl::StrCat("--folder=", ::testing::TempDir()), "--json"},
                    ::testing::TempDir() + "/service_load.log");
  const auto line = load.ReadLine(absl::Seconds(60));
  ASSERT_TRUE(line);
  const auto result = nlohmann::json::parse(*line, nullptr, false);
  ASSERT_TRUE(result.is_object()) << *line;
  EXPECT_EQ(load.Wait(absl::Seconds(30)), 0);
  EXPECT_EQ(result["reconnect"]["members"], 40);
  EXPECT_EQ(result["reconnect"]["jobs_waiting"], 10);
  EXPECT_GT(result["reconnect"]["all_served_seconds"], 0);
}

}  // namespace
}  // namespace comera::bench
