// Tests that progress reports are applied once and acknowledged.
#include "server/coordinator/synchronize/progress_reports.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_harness.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::SizeIs;

class ProgressReportsTest : public ::testing::Test {
 protected:
  ProgressReportsTest() {
    parts_.AddWorker("w1");
    parts_.AddWorker("w2");
    entry_ = &parts_.StartJob("a", "w1");
    parts_.effects = Effects();
  }

  // The acknowledged number.
  int64_t Apply(const std::string& worker,
                const std::vector<v1::ProgressReport>& reports) {
    v1::SynchronizeRequest request = parts_.Report(worker);
    for (const v1::ProgressReport& report : reports) {
      *request.add_reports() = report;
    }
    v1::SynchronizeResponse response;
    Operation op(parts_.now, &parts_.effects);
    ApplyProgressReports(request, &parts_.jobs, &response, &op);
    EXPECT_THAT(response.report_acks(), SizeIs(1));
    return response.report_acks(0).number();
  }

  CoordinatorParts parts_;
  JobEntry* entry_;
};

TEST_F(ProgressReportsTest, EachReportCountsOnce) {
  const auto first = Metrics("jobs/a", 1, 1, 10);
  const auto second = Metrics("jobs/a", 1, 2, 20);
  EXPECT_EQ(Apply("w1", {first}), 1);
  EXPECT_EQ(Apply("w1", {first, second}), 2);
  EXPECT_EQ(entry_->job().progress().step(), 20);
  EXPECT_THAT(parts_.effects.events, SizeIs(2));
}

TEST_F(ProgressReportsTest, OtherWorkersAndOlderAttemptsChangeNothing) {
  EXPECT_EQ(Apply("w2", {Metrics("jobs/a", 1, 5, 10)}), 5);
  EXPECT_EQ(Apply("w1", {Metrics("jobs/a", 2, 6, 10)}), 6);
  EXPECT_EQ(entry_->job().progress().step(), 0);
  EXPECT_THAT(parts_.effects.events, SizeIs(0));
}

TEST_F(ProgressReportsTest, ACheckpointNamesItsHolder) {
  v1::ProgressReport report = Metrics("jobs/a", 1, 1, 10);
  report.mutable_event()->mutable_checkpoint()->set_step(10);
  Apply("w1", {report});
  ASSERT_THAT(entry_->job().checkpoints(), SizeIs(1));
  EXPECT_EQ(entry_->job().checkpoints(0).workers(0), "w1");
}

}  // namespace
}  // namespace comera::server
