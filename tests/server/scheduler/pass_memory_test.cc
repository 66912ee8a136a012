// Tests what is remembered between passes: ends that jobs told, and for whom
// room was made.
#include "server/scheduler/pass_memory.h"

#include "gtest/gtest.h"
#include "tests/server/scheduler/cluster_builder.h"

namespace comera::server {
namespace {

class ToldEnd : public ::testing::Test {
 protected:
  // Tells this, and returns the end that is expected then.
  absl::Time Report(absl::Duration remaining, int64_t attempt = 1) {
    const PassMemory::Told told = {7, attempt, remaining};
    memory_.BeginHearing();
    memory_.Hear(told, now_);
    memory_.EndHearing();
    return memory_.EndOf(told, now_);
  }

  PassMemory memory_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
};

TEST_F(ToldEnd, RunsOutWhenNothingNewIsTold) {
  const absl::Time end = now_ + absl::Minutes(5);
  EXPECT_EQ(Report(absl::Minutes(5)), end);
  now_ += absl::Minutes(4);
  EXPECT_EQ(Report(absl::Minutes(5)), end);
  now_ += absl::Minutes(1);
  EXPECT_EQ(Report(absl::Minutes(5)), absl::InfiniteFuture());
}

TEST_F(ToldEnd, IsBelievedUntilTheJobTookTwiceAsLongAndAMinute) {
  // It tells something else each time, but never gets on.
  const absl::Time deadline = now_ + absl::Minutes(11);
  int i = 0;
  for (; now_ <= deadline; now_ += absl::Seconds(30)) {
    const absl::Duration remaining = absl::Minutes(5) + absl::Seconds(i++ % 2);
    EXPECT_EQ(Report(remaining), now_ + remaining);
  }
  EXPECT_EQ(Report(absl::Minutes(5)), absl::InfiniteFuture());
  // The next attempt is believed again.
  EXPECT_EQ(Report(absl::Minutes(5), 2), now_ + absl::Minutes(5));
}

TEST_F(ToldEnd, AnHonestEstimateThatDriftsIsBelieved) {
  const absl::Time end = now_ + absl::Hours(10);
  while (now_ < end) {
    const absl::Duration remaining = 1.2 * (end - now_);
    EXPECT_EQ(Report(remaining), now_ + remaining);
    now_ += absl::Minutes(7);
  }
}

TEST_F(ToldEnd, NonsenseIsNoEstimate) {
  EXPECT_EQ(Report(absl::InfiniteDuration()), absl::InfiniteFuture());
  EXPECT_EQ(Report(absl::Hours(24 * 36500)), absl::InfiniteFuture());
  EXPECT_EQ(Report(-absl::Hours(1)), absl::InfiniteFuture());
}

// A job that says for ever that it is about to end is stopped all the same.
TEST(PassMemory, APromiseThatIsNotKeptShieldsNobody) {
  ClusterBuilder c;
  c.Worker(2, 2);
  c.Running(2);
  c.Job(2, 5);
  PassMemory memory;
  int stopped = 0, minutes = 0;
  for (; minutes < 60 && stopped == 0; ++minutes) {
    const PassMemory::Told told = {
        1, 1, absl::Minutes(1) + absl::Seconds(minutes % 2)};
    memory.BeginHearing();
    memory.Hear(told, c.snapshot.now);
    memory.EndHearing();
    c.snapshot.running[0].expected_end = memory.EndOf(told, c.snapshot.now);
    stopped = static_cast<int>(c.Decide().stops.size());
    c.snapshot.now += absl::Minutes(1);
  }
  EXPECT_EQ(stopped, 1);
  EXPECT_GT(minutes, 2) << "it was believed for a while";
  EXPECT_LE(minutes, 6);
}

TEST(PassMemory, RoomThatWasMadeIsGrantedUntilTheJobStartsOrLeaves) {
  ClusterBuilder c;
  c.Worker(4, 4);
  c.Running(4).sizes = {4, 1};
  c.Job(2, 5);
  PassMemory memory;
  Decision decision;
  decision.stops.push_back({StopOrder::kShrink, 0, 1, 0});
  const int64_t serial = c.snapshot.jobs[0].serial;
  EXPECT_EQ(memory.GrantedTo(serial), 0);
  memory.Note(c.snapshot, decision);
  EXPECT_EQ(memory.GrantedTo(serial), 2) << "no more than it needs";
  memory.Note(c.snapshot, Decision());
  EXPECT_EQ(memory.GrantedTo(serial), 2);
  Decision start;
  start.placements.push_back({0, {{0, 0}, {0, 1}}});
  memory.Note(c.snapshot, start);
  EXPECT_EQ(memory.GrantedTo(serial), 0);
  memory.Note(c.snapshot, decision);
  c.snapshot.jobs.clear();
  memory.Note(c.snapshot, Decision());
  EXPECT_EQ(memory.GrantedTo(serial), 0);
}

// A job behind a gang that cannot start gets what was stopped for it, although
// the gang's reservation holds all else.
TEST(PassMemory, GrantedRoomIsTakenInSpiteOfAReservation) {
  ClusterBuilder c;
  c.Worker(16, 16);
  RunningJob& service = c.Running(1);
  service.preemptible = false;
  service.expected_end = c.snapshot.now + absl::Hours(72);
  for (int i = 0; i < 3; ++i) c.Running(5);
  c.Job(16, 10);
  c.Job(4, 5);
  PassMemory memory;
  Decision decision = c.Decide();
  ASSERT_EQ(decision.stops.size(), 1u);
  memory.Note(c.snapshot, decision);
  c.snapshot.jobs[1].granted = memory.GrantedTo(c.snapshot.jobs[1].serial);
  c.snapshot.running.pop_back();
  c.snapshot.workers[0].free_cpu = {11, 12, 13, 14, 15};
  decision = c.Decide();
  EXPECT_EQ(Placed(decision), std::vector<int>{1});
  EXPECT_TRUE(decision.stops.empty());
}

}  // namespace
}  // namespace comera::server
