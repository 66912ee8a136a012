// Tests how reports, silence and policy change what is known of a worker.
#include "server/coordinator/worker/worker_state.h"

#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

constexpr absl::Duration kSuspectAfter = absl::Seconds(10);

class WorkerStateTest : public ::testing::Test {
 protected:
  WorkerState::ReportChanges Apply(const v1::SynchronizeRequest& request,
                                   absl::Duration after) {
    return worker_.ApplyReport(request, parts_.now + after, kSuspectAfter);
  }

  CoordinatorParts parts_;
  WorkerState worker_{"w1", 1};
};

TEST_F(WorkerStateTest, IsConnectedUntilItIsSilentUnlessACallIsHeld) {
  EXPECT_FALSE(worker_.IsConnected(parts_.now, kSuspectAfter));
  Apply(parts_.Report("w1"), absl::ZeroDuration());
  const absl::Time later = parts_.now + absl::Seconds(11);
  EXPECT_TRUE(worker_.IsConnected(parts_.now, kSuspectAfter));
  EXPECT_FALSE(worker_.IsConnected(later, kSuspectAfter));
  worker_.Hold({5, later});
  EXPECT_TRUE(worker_.IsConnected(later, kSuspectAfter));
  EXPECT_EQ(worker_.ReleaseHeldCall(later), 5);
  EXPECT_TRUE(worker_.IsConnected(later, kSuspectAfter));
  worker_.MarkLost();
  EXPECT_FALSE(worker_.IsConnected(later, kSuspectAfter));
}

TEST_F(WorkerStateTest, AReportSaysWhetherSlotsOrPeersAreNews) {
  v1::SynchronizeRequest request = parts_.Report("w1");
  request.set_peer_address("w1:1");
  EXPECT_TRUE(Apply(request, absl::ZeroDuration()).slots);
  EXPECT_FALSE(Apply(request, absl::Seconds(1)).slots);
  EXPECT_FALSE(Apply(request, absl::Seconds(2)).peers);
  EXPECT_TRUE(Apply(request, absl::Seconds(60)).slots);  // It was silent.
  worker_.MarkLost();
  EXPECT_TRUE(Apply(request, absl::Seconds(61)).peers);
  request.set_peer_address("w1:2");
  EXPECT_TRUE(Apply(request, absl::Seconds(62)).peers);
}

TEST_F(WorkerStateTest, AnUnfitSlotKeepsTheTimeSinceWhenItIs) {
  v1::SynchronizeRequest request = parts_.Report("w1");
  request.mutable_slots(1)->set_unfit("too hot");
  Apply(request, absl::ZeroDuration());
  Apply(request, absl::Seconds(30));
  const absl::Time later = parts_.now + absl::Seconds(60);
  EXPECT_TRUE(worker_.IsUnfitFor(1, later, absl::Minutes(1)));
  EXPECT_FALSE(worker_.IsUnfitFor(0, later, absl::ZeroDuration()));
  Apply(parts_.Report("w1"), absl::Seconds(40));
  EXPECT_FALSE(worker_.IsUnfitFor(1, later, absl::ZeroDuration()));
}

TEST_F(WorkerStateTest, ReplacedIncarnationsAreRetired) {
  worker_.ReplaceIncarnation("i1");
  worker_.ReplaceIncarnation("i2");
  EXPECT_TRUE(worker_.IsRetiredIncarnation("i1"));
  EXPECT_FALSE(worker_.IsRetiredIncarnation("i2"));
}

TEST_F(WorkerStateTest, ALaterDaemonIsAnotherLife) {
  EXPECT_FALSE(worker_.NoteDaemon("d1"));
  const int64_t life = worker_.life();
  EXPECT_FALSE(worker_.NoteDaemon("d1"));
  EXPECT_EQ(worker_.life(), life);
  EXPECT_TRUE(worker_.NoteDaemon("d2"));
  EXPECT_NE(worker_.life(), life);
  EXPECT_TRUE(worker_.IsRetiredDaemon("d1"));
  EXPECT_FALSE(worker_.IsRetiredDaemon("d2"));
}

TEST_F(WorkerStateTest, ALoopbackAddressIsReachedFromItsMachineOnly) {
  v1::SynchronizeRequest request = parts_.Report("w1");
  EXPECT_FALSE(
      (Apply(request, absl::ZeroDuration()), worker_.CanBeReachedFrom("w1")));
  request.set_peer_address("127.0.0.1:80");
  Apply(request, absl::ZeroDuration());
  EXPECT_TRUE(worker_.CanBeReachedFrom("w1"));
  EXPECT_FALSE(worker_.CanBeReachedFrom("w2"));
}

TEST_F(WorkerStateTest, APolicyIsStoredUntilTheWorkerIsBackInService) {
  Operation op(parts_.now, &parts_.effects);
  WorkerPolicy policy;
  policy.set_drained(true);
  worker_.AddJob("jobs/a");
  worker_.SetPolicy(policy, &op);
  EXPECT_EQ(worker_.Service(), v1::WorkerSummary::DRAINING);
  worker_.RemoveJob("jobs/a");
  EXPECT_EQ(worker_.Service(), v1::WorkerSummary::DRAINED);
  worker_.SetPolicy(WorkerPolicy(), &op);
  EXPECT_EQ(worker_.Service(), v1::WorkerSummary::IN_SERVICE);
  ASSERT_EQ(parts_.effects.documents.size(), 2);
  EXPECT_TRUE(parts_.effects.documents[0].body.has_value());
  EXPECT_FALSE(parts_.effects.documents[1].body.has_value());
  EXPECT_TRUE(op.needs_schedule());
}

TEST_F(WorkerStateTest, CountsFailuresOfOneCauseOnceWithinTheWindow) {
  const absl::Duration window = absl::Hours(1);
  EXPECT_EQ(worker_.AddFailure("jobs/a", parts_.now, window), 1);
  EXPECT_EQ(worker_.AddFailure("jobs/a", parts_.now, window), 0);
  EXPECT_EQ(worker_.AddFailure("jobs/b", parts_.now, window), 2);
  const absl::Time later = parts_.now + absl::Hours(2);
  EXPECT_EQ(worker_.CountFailures(later, window), 0);
  EXPECT_EQ(worker_.AddFailure("jobs/a", later, window), 1);
}

}  // namespace
}  // namespace comera::server
