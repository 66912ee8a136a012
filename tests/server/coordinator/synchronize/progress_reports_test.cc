// Tests that progress reports are applied once and acknowledged.
#include "server/coordinator/synchronize/progress_reports.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
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

TEST_F(ProgressReportsTest, AHistoryIsBounded) {
  int64_t number = 0;
  const auto next = [&number] { return Metrics("jobs/a", 1, ++number, 10); };
  const auto events = [this](v1::JobEvent::EventCase kind) {
    return std::count_if(
        parts_.effects.events.begin(), parts_.effects.events.end(),
        [&](const v1::JobEvent& event) { return event.event_case() == kind; });
  };
  for (int i = 0; i < 3; ++i) {
    v1::ProgressReport begun = next(), ended = next();
    begun.mutable_event()->mutable_run_info()->add_initial_errors()->set_layer(
        std::string(70000, 'x'));
    ended.mutable_event()->mutable_result()->set_step(i);
    Apply("w1", {begun, ended});
  }
  EXPECT_EQ(events(v1::JobEvent::kRunInfo), 1);
  EXPECT_EQ(events(v1::JobEvent::kResult), 1);
  EXPECT_LT(parts_.effects.events[0].ByteSizeLong(), 1000u);
  v1::ProgressReport large = next();
  large.mutable_event()->mutable_rank_snapshot()->add_layers()->set_layer(
      std::string(70000, 'x'));
  Apply("w1", {large});
  EXPECT_EQ(events(v1::JobEvent::kRankSnapshot), 0);
  for (int i = 0; i < 100; ++i) {
    v1::ProgressReport incident = next();
    incident.mutable_event()->mutable_incident()->set_message(
        absl::StrCat("trouble ", i));
    Apply("w1", {incident});
  }
  EXPECT_LE(events(v1::JobEvent::kIncident), 33);
  EXPECT_LE(entry_->job().incidents_size(), 33);
}

TEST_F(ProgressReportsTest, AFloodOfSamplesIsLeftOut) {
  v1::ProgressReport sample = Metrics("jobs/a", 1, 1, 10);
  sample.mutable_event()->mutable_rank_snapshot()->add_layers()->set_layer(
      std::string(30000, 'x'));
  const auto report = [&](int count) {
    parts_.effects.events.clear();
    for (int i = 0; i < count; ++i) {
      Apply("w1", {sample});
      sample.set_number(sample.number() + 1);
    }
    return std::count_if(
        parts_.effects.events.begin(), parts_.effects.events.end(),
        [](const v1::JobEvent& event) { return event.has_rank_snapshot(); });
  };
  EXPECT_LT(report(1000), 600);
  EXPECT_EQ(report(10), 0);
  parts_.now += absl::Seconds(1);
  EXPECT_GT(report(10), 5);
}

}  // namespace
}  // namespace comera::server
