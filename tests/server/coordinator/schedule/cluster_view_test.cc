// Tests what the scheduler is shown of workers, queues and jobs.
#include "server/coordinator/schedule/cluster_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClusterViewTest : public ::testing::Test {
 protected:
  ClusterView View() {
    options_.suspect_after = absl::Seconds(10);
    return ClusterView(
        {&parts_.jobs, &parts_.workers, &parts_.queues, &parts_.starts},
        options_, parts_.now);
  }

  CoordinatorParts parts_;
  ClusterView::Options options_;
};

TEST_F(ClusterViewTest, ShowsUsableWorkersAndTheirFreeSlots) {
  parts_.AddWorker("w1", 3).SetOccupied({1});
  parts_.AddWorker("w2").MarkLost();
  const ClusterView view = View();
  ASSERT_THAT(view.snapshot().workers, SizeIs(1));
  EXPECT_EQ(view.worker(0).id(), "w1");
  EXPECT_THAT(view.snapshot().workers[0].free_cpu, ElementsAre(0, 2));
  EXPECT_EQ(view.snapshot().workers[0].total_cpu, 3);
}

TEST_F(ClusterViewTest, AGangThatMakesRoomKeepsAllItsSlots) {
  parts_.AddWorker("w1");
  JobEntry& entry = parts_.StartJob("a", "w1");
  entry.attempt().members()[0].AdvancePhase(v1::MemberStatus::EXITED);
  EXPECT_THAT(View().snapshot().workers[0].free_cpu, ElementsAre(0));
  entry.attempt().SetStopRequest(AttemptRecord::PREEMPTED, "", parts_.now);
  const ClusterView view = View();
  EXPECT_THAT(view.snapshot().workers[0].free_cpu, IsEmpty());
  ASSERT_THAT(view.snapshot().running, SizeIs(1));
  EXPECT_EQ(view.snapshot().running[0].processes, 2);
  EXPECT_EQ(&view.running(0), &entry);
}

TEST_F(ClusterViewTest, WhatAJobTellsAboutItsEndRunsOut) {
  parts_.AddWorker("w1");
  JobEntry& entry = parts_.StartJob("a", "w1");
  entry.mutable_job().mutable_progress()->mutable_eta()->set_seconds(300);
  PassMemory memory;
  options_.memory = &memory;
  const absl::Time told = parts_.now;
  ClusterView::Hear(parts_.jobs, parts_.now, &memory);
  EXPECT_EQ(View().snapshot().running[0].expected_end, told + absl::Minutes(5));
  parts_.now += absl::Minutes(4);
  ClusterView::Hear(parts_.jobs, parts_.now, &memory);
  EXPECT_EQ(View().snapshot().running[0].expected_end, told + absl::Minutes(5));
  parts_.now += absl::Minutes(1);
  EXPECT_EQ(View().snapshot().running[0].expected_end, absl::InfiniteFuture());
}

TEST_F(ClusterViewTest, QueuedJobsPreferTheirLastWorkers) {
  parts_.AddWorker("w1");
  parts_.AddWorker("w2");
  JobEntry& entry = parts_.StartJob("a", "w2");
  Operation op(parts_.now, &parts_.effects);
  entry.attempt().End(parts_.now);
  entry.SetState(v1::QUEUED, "", &op);
  JobEntry& other = parts_.AddJob("b", 1);
  const ClusterView view = View();
  EXPECT_EQ(view.PositionOf(entry), 0);
  EXPECT_EQ(view.PositionOf(other), 1);
  EXPECT_THAT(view.snapshot().jobs[0].last_workers, ElementsAre(1));
  EXPECT_EQ(view.snapshot().jobs[1].processes, 1);
}

TEST_F(ClusterViewTest, AJobThatWaitsForItsCheckpointIsNotThere) {
  JobEntry& entry = parts_.AddJob("a", 2, {"w1"});
  entry.mutable_job().set_attempt(1);
  entry.mutable_job().add_checkpoints()->add_workers("w1");
  EXPECT_EQ(View().PositionOf(entry), -1);
  EXPECT_THAT(View().snapshot().jobs, IsEmpty());
  parts_.AddWorker("w1");
  v1::SynchronizeRequest request = parts_.Report("w1");
  request.add_checkpoints()->set_job("jobs/a");
  request.mutable_checkpoints(0)->set_place(v1::HeldCheckpoint::DISK);
  v1::SynchronizeResponse response;
  Operation op(parts_.now, &parts_.effects);
  parts_.peers.ApplyHeld(request, *parts_.workers.Find("w1"), &response, &op);
  EXPECT_EQ(View().PositionOf(entry), 0);
}

TEST_F(ClusterViewTest, AJobOfAnUnknownQueueGetsAShareOfItsOwn) {
  JobEntry& entry = parts_.AddJob("a");
  JobRecord record = entry.record();
  record.mutable_job()->mutable_spec()->set_queue("old");
  const JobEntry old(record, nullptr);
  ClusterView view = View();
  EXPECT_THAT(view.snapshot().queues, SizeIs(1));
  EXPECT_EQ(view.AddQueued(old), 1);
  EXPECT_THAT(view.snapshot().queues, SizeIs(2));
}

}  // namespace
}  // namespace comera::server
