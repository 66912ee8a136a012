// Tests what becomes of silent workers and how workers are summarised.
#include "server/coordinator/synchronize/worker_monitor.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/worker/worker_summary.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::SizeIs;

class WorkerMonitorTest : public ::testing::Test {
 protected:
  WorkerMonitorTest() {
    v1::SynchronizeRequest request = parts_.Report("w1");
    request.set_peer_address("w1:1");
    worker_ = &parts_.AddWorker("w1");
    worker_->ApplyReport(request, parts_.now, parts_.options.suspect_after);
    entry_ = &parts_.StartJob("a", "w1");
  }

  void CheckAfter(absl::Duration duration) {
    Operation op(parts_.now + duration, &parts_.effects);
    monitor_.Check(&op);
  }
  void ConfirmExitAfter(absl::Duration duration) {
    Operation op(parts_.now + duration, &parts_.effects);
    monitor_.ConfirmExit("w1", "i1", &op);
  }

  CoordinatorParts parts_;
  WorkerMonitor monitor_{&parts_.options, &parts_.workers, &parts_.lifecycle,
                         &parts_.peers, &parts_.held_calls};
  WorkerState* worker_;
  JobEntry* entry_;
};

TEST_F(WorkerMonitorTest, ASilentWorkerIsProbedAndThenLost) {
  CheckAfter(absl::Seconds(2));
  EXPECT_THAT(parts_.effects.probes, SizeIs(0));
  CheckAfter(absl::Seconds(3));
  CheckAfter(absl::Seconds(4));
  ASSERT_THAT(parts_.effects.probes, SizeIs(1));
  EXPECT_EQ(parts_.effects.probes[0].address, "w1:1");
  CheckAfter(absl::Seconds(60));
  EXPECT_FALSE(worker_->lost());
  CheckAfter(absl::Seconds(61));
  EXPECT_TRUE(worker_->lost());
  EXPECT_EQ(entry_->state(), v1::QUEUED);
}

TEST_F(WorkerMonitorTest, NobodyAsksForTheDaemonOfMembersThatOutliveIt) {
  v1::SynchronizeRequest request = parts_.Report("w1");
  request.set_peer_address("w1:1");
  request.set_members_survive(true);
  worker_->ApplyReport(request, parts_.now, parts_.options.suspect_after);
  CheckAfter(absl::Seconds(60));
  EXPECT_THAT(parts_.effects.probes, SizeIs(0));
  EXPECT_FALSE(worker_->lost());
  CheckAfter(absl::Seconds(61));
  EXPECT_TRUE(worker_->lost());
}

TEST_F(WorkerMonitorTest, AHeldCallProvesThatTheWorkerIsThere) {
  worker_->Hold({1, parts_.now + absl::Hours(1)});
  CheckAfter(absl::Minutes(30));
  EXPECT_FALSE(worker_->lost());
}

TEST_F(WorkerMonitorTest, AConfirmedExitCountsUnlessTheWorkerWasHeardSince) {
  ConfirmExitAfter(absl::Seconds(1));
  EXPECT_FALSE(worker_->lost());
  ConfirmExitAfter(absl::Seconds(3));
  EXPECT_TRUE(worker_->lost());
}

TEST_F(WorkerMonitorTest, SummariesAndCountsAgree) {
  worker_->SetOccupied({0});
  const v1::WorkerSummary summary =
      Summarize(*worker_, parts_.options, parts_.now);
  EXPECT_TRUE(summary.connected());
  EXPECT_EQ(summary.busy_slots(), 1);
  EXPECT_EQ(summary.jobs(0), "jobs/a");
  ClusterCounts counts =
      CountCluster(parts_.workers, parts_.options.suspect_after, parts_.now);
  EXPECT_EQ(counts.workers["IN_SERVICE"], 1);
  EXPECT_EQ(counts.workers["LOST"], 0);
  EXPECT_EQ(counts.slots["cpu"].total, 2);
  EXPECT_EQ(counts.slots["cpu"].busy, 1);
}

}  // namespace
}  // namespace comera::server
