// Tests which running jobs make room for which waiting ones.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/scheduler/scheduler.h"
#include "tests/server/scheduler/cluster_builder.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two slots are free, two more of six can be preempted: enough together.
TEST(Preemption, Complaint07_FreeAndPreemptibleRoomArePlannedTogether) {
  ClusterBuilder c;
  c.Worker(8, 6);
  c.Running(4, 10);
  c.Running(2, 0);
  c.Job(4, 5);
  const Decision decision = c.Decide();
  EXPECT_THAT(Stopped(decision), ElementsAre(1));
  EXPECT_EQ(decision.stops[0].job, 0);
  EXPECT_EQ(ReasonOf(decision, 0),
            "waiting for 4 CPU slots, which other jobs are giving up");
  // While they save their state nobody else is stopped, and nobody takes the
  // free half away.
  c.snapshot.running[1].stopping = true;
  c.Job(2);
  const Decision next = c.Decide();
  EXPECT_THAT(next.stops, IsEmpty());
  EXPECT_THAT(next.placements, IsEmpty());
}

TEST(Preemption, LowestPriorityThenYoungestAndNoMoreThanNeeded) {
  ClusterBuilder c;
  c.Worker(8, 8);
  c.Running(2, 1);
  c.Running(2, 0).started -= absl::Hours(1);
  c.Running(2, 0);
  c.Running(2, 0).preemptible = false;
  c.Job(2, 5);
  EXPECT_THAT(Stopped(c.Decide()), ElementsAre(2));
  c.snapshot.jobs[0].processes = 6;
  EXPECT_THAT(Stopped(c.Decide()), ElementsAre(2, 1, 0));
  c.snapshot.jobs[0].processes = 7;
  EXPECT_THAT(Stopped(c.Decide()), IsEmpty()) << "cannot be had";
  // One that is large enough alone goes alone.
  c.snapshot.running[0].processes = c.snapshot.running[0].usable_processes = 6;
  c.snapshot.jobs[0].processes = 6;
  EXPECT_THAT(Stopped(c.Decide()), ElementsAre(0));
}

TEST(Preemption, EqualPriorityIsSafeAndSoIsAYoungJob) {
  ClusterBuilder c;
  c.Worker(2, 2);
  c.Running(2, 0);
  c.Job(2, 0);
  EXPECT_THAT(Stopped(c.Decide()), IsEmpty());
  c.snapshot.jobs[0].priority = 1;
  c.snapshot.running[0].started = c.snapshot.now - absl::Minutes(4);
  EXPECT_THAT(Stopped(c.Decide()), IsEmpty());
  c.snapshot.now += absl::Minutes(1);
  EXPECT_THAT(Stopped(c.Decide()), ElementsAre(0));
  c.snapshot.running[0].expected_end = c.snapshot.now + absl::Minutes(1);
  EXPECT_THAT(Stopped(c.Decide()), IsEmpty()) << "it ends by itself";
}

TEST(Preemption, BorrowedRanksAreGivenBackToTheOwner) {
  ClusterBuilder c;
  c.Worker(8, 8);
  const int owner = c.Queue(/*guaranteed=*/4), other = c.Queue(4);
  RunningJob& borrower = c.Running(4, 50);
  borrower.queue = other;
  RunningJob& within = c.Running(4, 0);
  within.queue = other;
  c.Job(4).queue = owner;
  // By priority among what the other queue has too much of.
  EXPECT_THAT(Stopped(c.Decide()), ElementsAre(1));
  // Whoever is within the guarantee is safe from others' priority.
  ClusterBuilder safe;
  safe.Worker(4, 4);
  const int guaranteed = safe.Queue(4);
  safe.Running(4, 0).queue = guaranteed;
  safe.Job(4, 100);
  EXPECT_THAT(Stopped(safe.Decide()), IsEmpty());
  // But not from that of its own queue.
  safe.snapshot.jobs[0].queue = guaranteed;
  EXPECT_THAT(Stopped(safe.Decide()), ElementsAre(0));
}

TEST(Preemption, ElasticJobsShrinkFirst) {
  ClusterBuilder c;
  c.Worker(8, 8);
  c.Running(4, 0);
  RunningJob& elastic = c.Running(4, 0);
  elastic.sizes = {4, 2, 1};
  c.Job(2, 5);
  Decision decision = c.Decide();
  ASSERT_THAT(Stopped(decision), ElementsAre(1));
  EXPECT_EQ(decision.stops[0].kind, StopOrder::kShrink);
  EXPECT_EQ(decision.stops[0].processes, 2);
  // Also for their equals, but those are not stopped.
  c.snapshot.jobs[0].priority = 0;
  EXPECT_THAT(Stopped(c.Decide()), ElementsAre(1));
  c.snapshot.jobs[0].processes = 4;
  EXPECT_THAT(Stopped(c.Decide()), IsEmpty());
  // One that is not enough smaller goes altogether.
  c.snapshot.jobs[0].priority = 5;
  c.snapshot.jobs[0].processes = 8;
  decision = c.Decide();
  EXPECT_EQ(decision.stops.size(), 2u);
  for (const StopOrder& order : decision.stops) {
    EXPECT_EQ(order.kind, StopOrder::kPreempt);
  }
}

TEST(Preemption, ResizedJobGoesOnInItsRoomBeforeOthers) {
  ClusterBuilder c;
  c.Worker(4);
  c.Job(2, 9);
  PendingJob& resized = c.Job(2);
  resized.sizes = {2, 1};
  resized.resizing = true;
  c.Job(2, 8);
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(1, 0));
}

}  // namespace
}  // namespace comera::server
