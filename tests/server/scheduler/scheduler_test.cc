// Tests which jobs start, in which order and on which slots.
#include "server/scheduler/scheduler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/scheduler/cluster_builder.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Scheduler, PriorityThenOrderOfAcceptance) {
  ClusterBuilder c;
  c.Worker(3);
  c.Job(1);
  c.Job(1);
  c.Job(1, 5);
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(2, 0, 1));
}

TEST(Scheduler, BlockedGangIsNotStarvedBySmallerJobs) {
  ClusterBuilder c;
  c.Worker(2, 1);
  c.Running(1);
  c.Job(2);
  c.Job(1);
  const Decision decision = c.Decide();
  EXPECT_THAT(Placed(decision), IsEmpty());
  EXPECT_EQ(ReasonOf(decision, 0), "waiting for 2 free CPU slots, 1 free");
  EXPECT_EQ(ReasonOf(decision, 1), "waiting for earlier jobs");
}

// A gang gets all its ranks at once or keeps none, however the room is split.
TEST(Scheduler, Complaint06_GangIsNeverHalfPlaced) {
  for (int free = 0; free <= 8; ++free) {
    ClusterBuilder c;
    c.Worker(4, 4 - std::min(free, 4));
    c.Worker(4, 4 - std::max(0, free - 4));
    if (free < 8) c.Running(8 - free);
    c.Job(5);
    const Decision decision = c.Decide();
    if (free < 5) {
      EXPECT_THAT(decision.placements, IsEmpty()) << free;
    } else {
      ASSERT_EQ(decision.placements.size(), 1u) << free;
      EXPECT_EQ(decision.placements[0].members.size(), 5u);
    }
  }
}

TEST(Scheduler, WorkersOutOfServiceAreNamed) {
  ClusterBuilder c;
  c.Job(2);
  EXPECT_EQ(ReasonOf(c.Decide(), 0),
            "waiting for 2 CPU slots, none is connected");
  c.snapshot.cpu_out = {1, 0};
  c.snapshot.gpu_out = {7, 7};
  EXPECT_EQ(ReasonOf(c.Decide(), 0),
            "waiting for 2 CPU slots, none is in service: 1 worker is drained "
            "or excluded");
  c.snapshot.cpu_out = {2, 1};
  EXPECT_EQ(ReasonOf(c.Decide(), 0),
            "waiting for 2 CPU slots, none is in service: 2 workers are "
            "drained or excluded, 1 worker is not connected");
}

TEST(Scheduler, JobLargerThanTheClusterHoldsNobodyBack) {
  ClusterBuilder c;
  c.Worker(2);
  c.Job(3);
  c.Job(1);
  const Decision decision = c.Decide();
  EXPECT_THAT(Placed(decision), ElementsAre(1));
  EXPECT_EQ(ReasonOf(decision, 0),
            "waiting for 3 CPU slots, the cluster has 2");
}

TEST(Scheduler, FewestWorkersAndTightestFit) {
  ClusterBuilder c;
  const int big = c.Worker(4), fit = c.Worker(2), one = c.Worker(1);
  c.Job(2);
  EXPECT_THAT(WorkersOf(c.Decide().placements[0]), ElementsAre(fit, fit));
  c.snapshot.jobs[0].processes = 5;
  EXPECT_THAT(WorkersOf(c.Decide().placements[0]),
              ElementsAre(big, big, big, big, one));
}

TEST(Scheduler, OneMachineThenOneRackThenAcross) {
  ClusterBuilder c;
  for (int rack : {0, 1, 0, 1}) c.Worker(2, 0, rack);
  c.Worker(3, 0, 2);
  c.Job(3);
  EXPECT_THAT(WorkersOf(c.Decide().placements[0]), ElementsAre(4, 4, 4));
  c.snapshot.jobs[0].processes = 4;
  EXPECT_THAT(WorkersOf(c.Decide().placements[0]), ElementsAre(0, 0, 2, 2));
  c.snapshot.jobs[0].processes = 6;
  // Two racks do: a whole one, and of the others the tightest.
  EXPECT_THAT(WorkersOf(c.Decide().placements[0]),
              ElementsAre(0, 0, 2, 2, 4, 4));
}

TEST(Scheduler, ReturnsToTheWorkersOfTheLastAttempt) {
  ClusterBuilder c;
  for (int i = 0; i < 3; ++i) c.Worker(2);
  c.Job(2).last_workers = {1};
  EXPECT_THAT(WorkersOf(c.Decide().placements[0]), ElementsAre(1, 1));
  // Rank 0 returns to where rank 0 was.
  c.snapshot.jobs[0].processes = 4;
  c.snapshot.jobs[0].last_workers = {2, -1, 0};
  EXPECT_THAT(WorkersOf(c.Decide().placements[0]), ElementsAre(2, 2, 0, 0));
}

TEST(Scheduler, AnyDeviceMeansGpuWhereTheClusterHasOne) {
  ClusterBuilder c;
  c.Worker(2);
  c.Job(1);
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(0));
  c.snapshot.workers[0].total_gpu = 1;
  const Decision decision = c.Decide();
  EXPECT_THAT(Placed(decision), IsEmpty());
  EXPECT_EQ(ReasonOf(decision, 0), "waiting for 1 free GPU slot, 0 free");
}

TEST(Scheduler, UnfitSlotsCountAsTheClusterUntilTheGraceIsOver) {
  ClusterBuilder c;
  WorkerSlots& room = c.snapshot.workers[c.Worker(2)];
  room.free_gpu = {3};
  room.total_gpu = 2;
  room.unfit_gpu = 1;
  c.Job(2).device = v1::ResourceSpec::GPU;
  c.Job(1).device = v1::ResourceSpec::GPU;
  Decision decision = c.Decide();
  EXPECT_THAT(Placed(decision), IsEmpty());
  EXPECT_EQ(ReasonOf(decision, 0),
            "waiting for 2 free GPU slots, 1 free, 1 unfit");
  EXPECT_EQ(ReasonOf(decision, 1), "waiting for earlier jobs");
  room.lasting_unfit_gpu = 1;
  decision = c.Decide();
  EXPECT_THAT(Placed(decision), ElementsAre(1));
  EXPECT_EQ(ReasonOf(decision, 0),
            "waiting for 2 GPU slots, the cluster has 1 and 1 unfit");
}

TEST(Scheduler, BackfillEndsBeforeTheReservationOrLeavesItsSlotsAlone) {
  ClusterBuilder c;
  c.Worker(8, 5);
  c.Running(5).expected_end = c.snapshot.now + absl::Minutes(10);
  c.Job(6);                               // the head: at 10 min, 2 left
  c.Job(1).duration = absl::Minutes(11);  // takes one of the 2
  c.Job(1).duration = absl::Minutes(10);  // in time
  c.Job(1);                               // takes one of the 2
  c.Job(1);                               // none left
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(1, 2, 3));
  c.snapshot.jobs[1].processes = 3;
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(2, 3, 4));
}

// During its back-off a job keeps its place and its room; others may only use
// it for as long.
TEST(Scheduler, Complaint09_BackOffKeepsThePlaceInTheQueue) {
  ClusterBuilder c;
  c.Worker(4);
  c.Job(4).not_before = c.snapshot.now + absl::Seconds(30);
  c.Job(4);
  c.Job(2).duration = absl::Seconds(20);
  Decision decision = c.Decide();
  EXPECT_THAT(Placed(decision), ElementsAre(2));
  EXPECT_EQ(ReasonOf(decision, 0), "waiting before the next attempt");
  c.snapshot.now += absl::Seconds(30);
  c.snapshot.jobs.pop_back();
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(0));
}

TEST(Scheduler, QueueStaysWithinItsMaximumAndOthersPass) {
  ClusterBuilder c;
  c.Worker(8, 2);
  const int small = c.Queue(0, 1, 4);
  RunningJob& running = c.Running(2);
  running.queue = small;
  running.expected_end = c.snapshot.now + absl::Minutes(5);
  c.Job(3).queue = small;        // 2 + 3 > 4
  PendingJob& later = c.Job(2);  // fits, but would delay the first
  later.queue = small;
  c.Job(5).queue = small;  // never
  c.Job(4);                // another queue
  Decision decision = c.Decide();
  EXPECT_THAT(Placed(decision), ElementsAre(3));
  EXPECT_EQ(ReasonOf(decision, 0),
            "waiting for 3 processes of its queue, which uses 2 of 4");
  EXPECT_EQ(ReasonOf(decision, 1), "waiting for earlier jobs of its queue");
  EXPECT_EQ(ReasonOf(decision, 2),
            "waiting for 5 processes, its queue may use 4");
  c.snapshot.jobs[1].duration = absl::Minutes(5);
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(3, 1));
}

TEST(Scheduler, FairShareBetweenQueuesByWeightAndUsersByRanks) {
  ClusterBuilder c;
  c.Worker(9);
  const int heavy = c.Queue(0, /*weight=*/2);
  for (int i = 0; i < 9; ++i) c.Job(1);
  for (int i = 0; i < 9; ++i) c.Job(1).queue = heavy;
  int of_heavy = 0;
  for (int job : Placed(c.Decide())) of_heavy += job >= 9 ? 1 : 0;
  EXPECT_EQ(of_heavy, 6);

  ClusterBuilder users;
  users.Worker(6);
  for (int i = 0; i < 6; ++i) users.Job(1).user = 1;
  for (int i = 0; i < 6; ++i) users.Job(1).user = 2;
  EXPECT_THAT(Placed(users.Decide()), ElementsAre(0, 6, 1, 7, 2, 8));
}

TEST(Scheduler, OwedRanksComeBeforePriority) {
  ClusterBuilder c;
  c.Worker(4);
  const int owner = c.Queue(/*guaranteed=*/4);
  c.Job(4, 100);
  c.Job(4).queue = owner;
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(1));
}

TEST(Scheduler, LostPatienceGoesBeforeSharesOfThoseWhoHaveMore) {
  ClusterBuilder c;
  c.Worker(6, 5);
  c.Running(1).user = 1;
  c.Running(4).user = 3;
  c.Job(1).user = 1;
  c.Job(1).user = 2;
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(1));
  // Each of three users would have 2.
  c.snapshot.jobs[0].waiting_since -= absl::Hours(7);
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(0));
  c.snapshot.running[0].processes = 2;
  EXPECT_THAT(Placed(c.Decide()), ElementsAre(1));
}

TEST(Scheduler, ElasticJobStartsWithWhatThereIs) {
  ClusterBuilder c;
  c.Worker(8, 3);
  c.Running(3);
  PendingJob& job = c.Job(8);
  job.sizes = {8, 4, 2};
  const Decision decision = c.Decide();
  ASSERT_THAT(Placed(decision), ElementsAre(0));
  EXPECT_EQ(decision.placements[0].members.size(), 4u);
}

TEST(Scheduler, ElasticJobGrowsWhenRoomStaysFree) {
  ClusterBuilder c;
  c.Worker(8, 2);
  RunningJob& job = c.Running(2);
  job.sizes = {8, 4, 2};
  EXPECT_THAT(c.Decide().stops, IsEmpty()) << "the room is new";
  c.snapshot.cpu_spare_since = c.snapshot.now - absl::Minutes(2);
  Decision decision = c.Decide();
  ASSERT_EQ(decision.stops.size(), 1u);
  EXPECT_EQ(decision.stops[0].kind, StopOrder::kGrow);
  EXPECT_EQ(decision.stops[0].processes, 8);
  // Not while somebody waits, nor right after a start.
  c.Job(7);
  EXPECT_THAT(c.Decide().stops, IsEmpty());
  c.snapshot.jobs.clear();
  c.snapshot.running[0].started = c.snapshot.now - absl::Seconds(9);
  EXPECT_THAT(c.Decide().stops, IsEmpty());
}

TEST(Scheduler, ExplainsWhoIsAheadAndWhatLessWouldGet) {
  ClusterBuilder c;
  c.Worker(8, 6);
  c.Running(6, 5).expected_end = c.snapshot.now + absl::Minutes(10);
  c.Job(8, 5).duration = absl::Minutes(20);
  c.Job(4);
  c.Job(4).duration = absl::Minutes(9);
  const Explanation second = Scheduler::Explain(c.snapshot, 1, {2, 1});
  EXPECT_EQ(second.position, 2);
  ASSERT_EQ(second.ahead.size(), 1u);
  EXPECT_EQ(second.ahead[0].job, 0);
  EXPECT_EQ(second.ahead[0].why, "higher priority");
  EXPECT_EQ(second.reason.kind, WaitReason::kEarlierJobs);
  ASSERT_TRUE(second.expected_start.has_value());
  EXPECT_EQ(*second.expected_start, c.snapshot.now + absl::Minutes(30));
  ASSERT_EQ(second.smaller.size(), 2u);
  EXPECT_FALSE(second.smaller[0].now) << "its end is not known";
  const Explanation third = Scheduler::Explain(c.snapshot, 2, {2});
  EXPECT_EQ(third.position, 3);
  EXPECT_TRUE(third.smaller[0].now);
  // Without knowledge no promise.
  c.snapshot.running[0].expected_end = absl::InfiniteFuture();
  EXPECT_FALSE(Scheduler::Explain(c.snapshot, 1, {}).expected_start);
}

// Programs of users' own run on workers that allow them, and wait for those.
TEST(Scheduler, ProgramsWaitForWorkersThatRunThem) {
  ClusterBuilder c;
  c.Worker(4);
  c.Job(1).program = true;
  EXPECT_EQ(ReasonOf(c.Decide(), 0),
            "waiting for 1 CPU slot of a worker that runs programs, none does "
            "(comera-worker --allow_programs)");
  const int able = c.Worker(3, 2);
  c.snapshot.workers[able].runs_programs = true;
  const Decision decision = c.Decide();
  ASSERT_THAT(Placed(decision), ElementsAre(0));
  EXPECT_THAT(WorkersOf(decision.placements[0]), ElementsAre(able));
}

TEST(Scheduler, AProgramThatFindsNoRoomHoldsNobodyBack) {
  ClusterBuilder c;
  c.Worker(4);
  c.snapshot.workers[c.Worker(3, 2)].runs_programs = true;
  c.Running(2);
  c.Job(2).program = true;
  c.Job(5);
  const Decision decision = c.Decide();
  EXPECT_THAT(Placed(decision), ElementsAre(1));
  EXPECT_EQ(ReasonOf(decision, 0),
            "waiting for 2 free CPU slots of workers that run programs, 1 of "
            "3 are free");
  EXPECT_THAT(decision.stops, IsEmpty());
}

TEST(Scheduler, AGangOfProgramsMaySpanTheWorkersThatRunThem) {
  ClusterBuilder c;
  const int first = c.Worker(1);
  c.Worker(8);
  const int second = c.Worker(2);
  c.snapshot.workers[first].runs_programs = true;
  c.snapshot.workers[second].runs_programs = true;
  c.Job(3).program = true;
  c.Job(8);
  const Decision decision = c.Decide();
  ASSERT_THAT(Placed(decision), ElementsAre(0, 1));
  EXPECT_THAT(WorkersOf(decision.placements[0]),
              ::testing::UnorderedElementsAre(first, second, second));
}

// Where all workers run programs, theirs are jobs like all others.
TEST(Scheduler, ProgramsAreReservedForWhereEverybodyRunsThem) {
  ClusterBuilder c;
  c.snapshot.workers[c.Worker(2, 1)].runs_programs = true;
  c.Running(1);
  c.Job(2).program = true;
  c.Job(1);
  const Decision decision = c.Decide();
  EXPECT_THAT(Placed(decision), IsEmpty());
  EXPECT_EQ(ReasonOf(decision, 0), "waiting for 2 free CPU slots, 1 free");
}

}  // namespace
}  // namespace comera::server
