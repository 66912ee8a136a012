// Checks which members the table starts, stops and kills, and as what their
// ends count, call by call without processes or IO.
#include "worker/gang/member_table.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/gang/member_table_fixture.h"
#include "worker/gang/member_failure.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST_F(MemberTableTest, StartsWhatIsWantedOnce) {
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/a", 1, 1, 1)});
  EXPECT_THAT(Starts(), ElementsAre(1, 2));
  EXPECT_THAT(Starts(), IsEmpty());
  // The same answer comes again.
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/a", 1, 1, 1)});
  EXPECT_THAT(Starts(), IsEmpty());
  EXPECT_EQ(Request().members_size(), 2);
  EXPECT_EQ(Request().members(0).phase(), v1::MemberStatus::STARTING);
}

TEST_F(MemberTableTest, AMemberThatIsPreparedStarts) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  const GangMembers::Id id = Starts()[0];
  table_.Preparing(id);
  v1::MemberKey key;
  key.set_job("jobs/a");
  key.set_attempt(1);
  EXPECT_TRUE(table_.IsAlive(key));
  steady_ += absl::Seconds(100);
  table_.PreparationMoved(id, "fetching");
  steady_ += absl::Seconds(3);
  table_.Reconcile(kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.phase(), v1::MemberStatus::STARTING);
  EXPECT_EQ(status.activity(), "fetching");
  EXPECT_FALSE(status.has_silent());
  EXPECT_LT(status.stalled().seconds(), 5);
}

TEST_F(MemberTableTest, AnUnreachableStateIsAClassOfItsOwn) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  const GangMembers::Id id = Starts()[0];
  table_.FetchFailed(id,
                     WithFailureClass(absl::NotFoundError("nobody has it"),
                                      v1::CHECKPOINT_UNREACHABLE),
                     kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.phase(), v1::MemberStatus::EXITED);
  EXPECT_EQ(status.failure().failure_class(), v1::CHECKPOINT_UNREACHABLE);
  EXPECT_EQ(status.failure().message(), "member 0: nobody has it");
  v1::MemberKey key;
  key.set_job("jobs/a");
  key.set_attempt(1);
  EXPECT_FALSE(table_.IsAlive(key));
}

TEST_F(MemberTableTest, AnUnknownSlotIsNotUsed) {
  Answer({Assignment("jobs/a", 1, 0, 2)});
  EXPECT_THAT(Starts(), IsEmpty());
}

TEST_F(MemberTableTest, StopsWhatIsNotWantedOnce) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  Answer({});
  EXPECT_THAT(table_.Reconcile(kNow).stop, ElementsAre(1));
  EXPECT_THAT(table_.Reconcile(kNow).stop, IsEmpty());
  table_.OnExit(1, {}, kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.phase(), v1::MemberStatus::EXITED);
  EXPECT_FALSE(status.has_failure());
}

TEST_F(MemberTableTest, ASlotIsFreeOnlyWhenItsProcessIsGone) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  EXPECT_THAT(Starts(), ElementsAre(1));
  Answer({Assignment("jobs/b", 1, 0, 0)});
  EXPECT_THAT(Starts(), IsEmpty());
  table_.OnExit(1, {}, kNow);
  EXPECT_THAT(Starts(), ElementsAre(2));
}

TEST_F(MemberTableTest, EpochsOfAJobDoNotOverlap) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  Answer({Assignment("jobs/a", 2, 0, 1)});
  EXPECT_THAT(Starts(), IsEmpty());
  table_.OnExit(1, {}, kNow);
  EXPECT_THAT(Starts(), ElementsAre(2));
}

TEST_F(MemberTableTest, WhatEndedIsNeverStartedAgain) {
  const auto rank = Assignment("jobs/a", 2, 0, 0);
  Answer({rank});
  Starts();
  MemberExit crash;
  crash.signal = 11;
  table_.OnExit(1, crash, kNow);
  Request();
  Answer({rank}, {rank});
  EXPECT_THAT(Starts(), IsEmpty());
  EXPECT_EQ(Request().members_size(), 0);
  Answer({Assignment("jobs/a", 1, 0, 0)});
  EXPECT_THAT(Starts(), IsEmpty());
  Answer({Assignment("jobs/a", 3, 0, 0)});
  EXPECT_THAT(Starts(), ElementsAre(2));
}

TEST_F(MemberTableTest, AnEndIsKeptUntilForgotten) {
  const auto rank = Assignment("jobs/a", 1, 1, 0);
  Answer({rank});
  Starts();
  MemberExit crash;
  crash.signal = 11;
  crash.log_tail = "bad \xff byte";
  crash.peak_memory_bytes = 77;
  table_.OnExit(1, crash, kNow);
  for (int i = 0; i < 2; ++i) {
    const v1::MemberStatus status = Request().members(0);
    EXPECT_EQ(status.failure().failure_class(), v1::RANK_LOST);
    EXPECT_EQ(status.failure().rank(), 1);
    EXPECT_EQ(status.failure().log_tail(), "bad ? byte");
    EXPECT_EQ(status.peak_memory_bytes(), 77);
    Answer({});
  }
  Request();
  Answer({}, {rank});
  EXPECT_EQ(Request().members_size(), 0);
  EXPECT_EQ(table_.PopFinishedAttempts().size(), 1);
  EXPECT_THAT(table_.PopFinishedJobs(), IsEmpty());
}

TEST_F(MemberTableTest, AForgetForWhatWasNotToldIsPassedOver) {
  const auto rank = Assignment("jobs/a", 1, 0, 0);
  Answer({rank});
  Starts();
  Answer({rank}, {rank});
  EXPECT_EQ(Request().members_size(), 1);
}

TEST_F(MemberTableTest, TheTrainersOwnFailureWins) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  v1::TrainerEvent event;
  event.mutable_failure()->set_failure_class(v1::NAN_LOSS);
  table_.OnEvent(1, event);
  MemberExit exit;
  exit.code = 1;
  exit.log_tail = "tail";
  table_.OnExit(1, exit, kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.failure().failure_class(), v1::NAN_LOSS);
  EXPECT_EQ(status.failure().attempt(), 1);
  EXPECT_EQ(status.failure().log_tail(), "tail");
}

TEST_F(MemberTableTest, KernelKillsAreOutOfMemory) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  MemberExit exit;
  exit.signal = 9;
  exit.out_of_memory_kill = true;
  table_.OnExit(1, exit, kNow);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::OUT_OF_MEMORY);
}

TEST_F(MemberTableTest, Member0MustGiveAResult) {
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/a", 1, 1, 1)});
  Starts();
  EXPECT_EQ(table_.OnExit(1, {}, kNow), std::nullopt);
  EXPECT_EQ(table_.OnExit(2, {}, kNow), std::nullopt);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::RANK_LOST);
  EXPECT_FALSE(Request().members(1).has_failure());
}

TEST_F(MemberTableTest, AJobIsNotFinishedWhileANewerEpochRunsHere) {
  const auto old = Assignment("jobs/a", 1, 0, 0);
  const auto next = Assignment("jobs/a", 2, 0, 0);
  Answer({old});
  Starts();
  table_.OnEvent(1, Result());
  const auto uploading = table_.OnExit(1, {}, kNow);
  ASSERT_TRUE(uploading.has_value());
  v1::Artifact model;
  model.set_name("jobs/a/models/final");
  table_.OnUpload(*uploading, Models{model}, kNow);
  Request();
  // The coordinator had given up the first attempt meanwhile.
  Answer({next}, {old});
  EXPECT_EQ(Starts().size(), 1);
  EXPECT_THAT(table_.PopFinishedJobs(), IsEmpty());
  table_.OnExit(2, {}, kNow);
  Request();
  Answer({}, {next});
  EXPECT_THAT(table_.PopFinishedJobs(), IsEmpty());
}

TEST_F(MemberTableTest, LongFailuresAreCut) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  v1::TrainerEvent event;
  event.mutable_failure()->set_message(std::string(1 << 20, 'x'));
  table_.OnEvent(1, event);
  MemberExit exit;
  exit.code = 1;
  table_.OnExit(1, exit, kNow);
  EXPECT_EQ(Request().members(0).failure().message().size(), 4096);
}

TEST_F(MemberTableTest, AFailedStartIsAnEnd) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.StartFailed(1, absl::NotFoundError("no trainer"), kNow);
  EXPECT_FALSE(table_.HasProcesses());
  EXPECT_EQ(Request().members(0).phase(), v1::MemberStatus::EXITED);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::INTERNAL);
}

TEST_F(MemberTableTest, AnUnfitSlotIsNotTheJobsFault) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.StartFailed(1, absl::FailedPreconditionError("hot"), kNow);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::RANK_LOST);
}

TEST_F(MemberTableTest, AFullDiskAtTheStartIsNotTheJobsFault) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.StartFailed(1, absl::ResourceExhaustedError("no space left"), kNow);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::DISK_FULL);
}

TEST_F(MemberTableTest, ShutDownStopsAllAndTellsThemLost) {
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/a", 1, 1, 1)});
  Starts();
  table_.OnEvent(1, Result());
  const auto uploading = table_.OnExit(1, {}, kNow);
  ASSERT_TRUE(uploading.has_value());
  table_.ShutDown();
  const MemberTable::Actions actions = table_.Reconcile(kNow);
  EXPECT_THAT(actions.stop, ElementsAre(2));
  EXPECT_EQ(actions.stop_retrying.size(), 1);
  table_.OnExit(2, {}, kNow);
  const v1::SynchronizeRequest request = Request();
  EXPECT_EQ(request.members_size(), 2);
  // One member had its result, but not its model; the other saved and ended.
  EXPECT_EQ(request.members(0).failure().failure_class(), v1::NODE_LOST);
  EXPECT_EQ(request.members(1).failure().failure_class(), v1::PREEMPTED);
}

TEST_F(MemberTableTest, GangsAcrossWorkersMeetUntilTheirFirstStep) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  EXPECT_THAT(table_.SpanningGangs(), IsEmpty());
  EXPECT_FALSE(table_.AnyMeeting());
  v1::MemberAssignment wide = Assignment("jobs/b", 4, 0, 1);
  wide.set_local_world_size(1);
  Answer({Assignment("jobs/a", 1, 0, 0), wide});
  Starts();
  EXPECT_TRUE(table_.AnyMeeting());
  table_.OnEvent(2, Heartbeat(1));
  EXPECT_FALSE(table_.AnyMeeting());
  // Entries are still exchanged, because a member may announce its end to the
  // others.
  EXPECT_THAT(table_.SpanningGangs(), ElementsAre(Pair(Pair("jobs/b", 4), 1)));
}

TEST_F(MemberTableTest, Complaint02_WhatHangsIsKilledOnce) {
  const auto rank = Assignment("jobs/a", 1, 0, 0);
  Answer({rank});
  Starts();
  v1::SynchronizeResponse response;
  response.add_kill()->set_job("jobs/a");
  response.mutable_kill(0)->set_attempt(1);
  table_.OnResponse(response);
  MemberTable::Actions actions = table_.Reconcile(kNow);
  EXPECT_THAT(actions.kill, ElementsAre(1));
  EXPECT_THAT(actions.stop, IsEmpty());
  EXPECT_THAT(table_.Reconcile(kNow).kill, IsEmpty());
  MemberExit exit;
  exit.signal = 9;
  exit.log_tail = "stuck";
  table_.OnExit(1, exit, kNow);
  EXPECT_FALSE(Request().members(0).has_failure());
  EXPECT_EQ(Request().members(0).log_tail(), "stuck");
}

TEST_F(MemberTableTest, AMemberThatDoesNotEndAfterItsResultHasSucceeded) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.OnEvent(1, Result());
  steady_ += absl::Seconds(29);
  EXPECT_THAT(table_.Reconcile(kNow).kill, IsEmpty());
  steady_ += absl::Seconds(2);
  EXPECT_THAT(table_.Reconcile(kNow).kill, ElementsAre(1));
  MemberExit exit;
  exit.signal = 9;
  EXPECT_TRUE(table_.OnExit(1, exit, kNow).has_value());
}

TEST_F(MemberTableTest, MembersWithoutACoordinatorSaveAndEnd) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.GiveUpCoordinator("the coordinator was not heard for 10m");
  EXPECT_THAT(table_.Reconcile(kNow).stop, ElementsAre(1));
  // The coordinator answers again before the member has ended, and still wants
  // it.
  Answer({Assignment("jobs/a", 1, 0, 0)});
  table_.OnExit(1, {}, kNow);
  const v1::Failure failure = Request().members(0).failure();
  EXPECT_EQ(failure.failure_class(), v1::PREEMPTED);
  EXPECT_EQ(failure.message(), "the coordinator was not heard for 10m");
}

// Members of an earlier daemon that did not say how they ended.
class UnknownEndTest : public MemberTableTest {
 protected:
  UnknownEndTest() { exit_.known = false; }

  void Adopt(int rank) {
    MemberRecord record;
    record.set_id(rank + 1);
    *record.mutable_assignment() = Assignment("jobs/a", 1, rank, rank);
    table_.Adopt(record);
  }

  MemberExit exit_;
};

TEST_F(UnknownEndTest, IsALossOfAnyMember) {
  Adopt(0);
  Adopt(1);
  EXPECT_EQ(table_.OnExit(1, exit_, kNow), std::nullopt);
  EXPECT_EQ(table_.OnExit(2, exit_, kNow), std::nullopt);
  const v1::SynchronizeRequest request = Request();
  EXPECT_EQ(request.members(0).failure().failure_class(), v1::RANK_LOST);
  EXPECT_EQ(request.members(1).failure().failure_class(), v1::RANK_LOST);
}

TEST_F(UnknownEndTest, AfterAResultIsASuccess) {
  Adopt(0);
  table_.OnEvent(1, Result());
  EXPECT_TRUE(table_.OnExit(1, exit_, kNow).has_value());
  EXPECT_FALSE(Request().members(0).has_failure());
}

TEST_F(UnknownEndTest, OfAMemberThatIsToldToEndMayHaveLostItsState) {
  Adopt(1);
  table_.ShutDown();
  table_.Reconcile(kNow);
  table_.OnExit(2, exit_, kNow);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::NODE_LOST);
}

TEST_F(MemberTableTest, Complaint13_APreemptionNoticeIsNoLossIfTheMemberSaved) {
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/a", 1, 1, 1)});
  Starts();
  table_.ShutDown();
  table_.Reconcile(kNow);
  table_.OnExit(1, {}, kNow);
  MemberExit killed;
  killed.signal = 9;  // at the end of its grace period
  table_.OnExit(2, killed, kNow);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::PREEMPTED);
  EXPECT_EQ(Request().members(1).failure().failure_class(), v1::NODE_LOST);
}

}  // namespace
}  // namespace comera::worker
