// Tests promises that were once broken: guaranteed slots come back, a gang that
// cannot start stops nobody else, and weights hold however old the backlog is.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/scheduler/scheduler.h"
#include "tests/server/scheduler/cluster_builder.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Four jobs of another queue borrow all 16 slots.
struct BorrowedCluster : ClusterBuilder {
  BorrowedCluster() {
    Worker(16, 16);
    for (int i = 0; i < 4; ++i) Running(4);
    owner = Queue(/*guaranteed=*/8);
  }
  int owner = 0;
};

TEST(Promise, AWideJobAheadKeepsNoOwedSlotsFromItsQueue) {
  BorrowedCluster c;
  c.Job(12).queue = c.owner;  // more than the guarantee
  c.Job(4).queue = c.owner;
  const Decision decision = c.Decide();
  ASSERT_EQ(decision.stops.size(), 1u);
  EXPECT_EQ(decision.stops[0].job, 1);
}

TEST(Promise, OwedSlotsGoToTheQueueEvenIfItsFirstJobIsMoreUrgent) {
  BorrowedCluster c;
  c.snapshot.workers[0].free_cpu = {0, 1, 2, 3};
  c.snapshot.running.pop_back();
  c.Job(12, 10).queue = c.owner;
  c.Job(4).queue = c.owner;
  c.Job(4, 20);
  for (RunningJob& job : c.snapshot.running) job.preemptible = false;
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(1));
}

TEST(Promise, AGangThatCannotStartForDaysLetsLowerOnesPreempt) {
  ClusterBuilder c;
  c.Worker(16, 16);
  RunningJob& service = c.Running(1);
  service.preemptible = false;
  service.expected_end = c.snapshot.now + absl::Hours(72);
  for (int i = 0; i < 3; ++i) c.Running(5);
  c.Job(16, 10);
  c.Job(4, 5);
  const Decision decision = c.Decide();
  EXPECT_THAT(Stopped(decision), ElementsAre(3));
}

TEST(Promise, WeightsHoldForABacklogOlderThanPatience) {
  ClusterBuilder c;
  c.Worker(30);
  const int heavy = c.Queue(0, /*weight=*/2);
  for (int i = 0; i < 60; ++i) c.Job(1);
  for (int i = 0; i < 60; ++i) c.Job(1).queue = heavy;
  for (PendingJob& job : c.snapshot.jobs) {
    job.waiting_since -= absl::Hours(7);
  }
  int of_heavy = 0;
  for (int job : Placed(c.Decide())) of_heavy += job >= 60 ? 1 : 0;
  EXPECT_EQ(of_heavy, 20);
}

}  // namespace
}  // namespace comera::server
