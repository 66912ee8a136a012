// Tests one placement of a gang: its record, its failures and its end.
#include "server/coordinator/job/attempt.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;

class AttemptTest : public ::testing::Test {
 protected:
  AttemptTest() {
    attempt_.Begin(kNow);
    attempt_.AddMember("w1", "i1", 0, kNow);
    attempt_.AddMember("w1", "i1", 1, kNow);
    attempt_.AddMember("w2", "i2", 0, kNow);
  }

  void ExitWithResult(const std::string& model) {
    v1::MemberStatus status;
    status.mutable_result()->set_step(10);
    if (!model.empty()) {
      status.mutable_model()->set_name(model);
      status.mutable_model()->add_files()->set_path("a");
    }
    attempt_.members()[0].AdvancePhase(v1::MemberStatus::EXITED);
    attempt_.members()[0].SetResult(status);
  }

  const absl::Time kNow = absl::FromUnixSeconds(1000000);
  JobRecord record_;
  Attempt attempt_{&record_};
};

TEST_F(AttemptTest, BeginsWithTheNextNumberAndNothingOfTheLast) {
  EXPECT_EQ(attempt_.number(), 1);
  EXPECT_EQ(attempt_.members().size(), 3);
  EXPECT_EQ(attempt_.CountMembersOn("w1"), 2);
  EXPECT_THAT(record_.last_workers(), ElementsAre("w1", "w2"));
  attempt_.AddUpload("jobs/a/models/m", v1::ArtifactFile());
  attempt_.Begin(kNow + absl::Seconds(1));
  EXPECT_EQ(attempt_.number(), 2);
  EXPECT_TRUE(attempt_.members().empty());
  EXPECT_EQ(attempt_.record().uploads_size(), 0);
}

TEST_F(AttemptTest, EndAddsTheTimeThatAllMembersWereRunning) {
  attempt_.End(kNow + absl::Seconds(5));
  EXPECT_EQ(record_.running_micros(), 0);
  attempt_.Begin(kNow);
  attempt_.MarkRunning(kNow + absl::Seconds(10));
  EXPECT_EQ(attempt_.RunningFor(kNow + absl::Seconds(12)), absl::Seconds(2));
  attempt_.End(kNow + absl::Seconds(13));
  EXPECT_EQ(record_.running_micros(), 3000000);
  EXPECT_FALSE(record_.has_attempt());
}

TEST_F(AttemptTest, TheLastFewEndedAttemptsKeepTheirWorkers) {
  attempt_.End(kNow);
  EXPECT_TRUE(attempt_.RanOn("w1", 1, 1, kNow));
  EXPECT_TRUE(attempt_.RanOn("w2", 1, 2, kNow));
  EXPECT_FALSE(attempt_.RanOn("w2", 1, 1, kNow));
  EXPECT_FALSE(attempt_.RanOn("w2", 1, 3, kNow));
  ASSERT_EQ(record_.ended_attempts_size(), 1);
  EXPECT_THAT(record_.ended_attempts(0).workers(), ElementsAre("w1", "w2"));
  for (int i = 0; i < Attempt::kMaxEnded; ++i) {
    attempt_.Begin(kNow);
    attempt_.AddMember("w3", "i3", 0, kNow);
    attempt_.End(kNow);
  }
  EXPECT_EQ(record_.ended_attempts_size(), Attempt::kMaxEnded);
  EXPECT_FALSE(attempt_.RanOn("w1", 1, 1, kNow));
  EXPECT_TRUE(attempt_.RanOn("w3", 2, 0, kNow));
  // What can decide nothing any more goes.
  const absl::Time later = kNow + 2 * Attempt::kLateLogs;
  attempt_.Begin(later);
  attempt_.End(later);
  EXPECT_EQ(record_.ended_attempts_size(), 1);
}

TEST_F(AttemptTest, AnAttemptThatGoesOnHasNotEnded) {
  const AttemptRecord lost = attempt_.record();
  attempt_.End(kNow);
  attempt_.Readopt(lost, kNow);
  EXPECT_EQ(record_.ended_attempts_size(), 0);
  EXPECT_TRUE(attempt_.RanOn("w2", 1, 2, kNow + absl::Hours(1)));
}

TEST_F(AttemptTest, AnExitedMemberHoldsItsSlotWhileAGangMakesRoom) {
  GangMember& member = attempt_.members()[1];
  member.AdvancePhase(v1::MemberStatus::EXITED);
  EXPECT_FALSE(attempt_.HoldsSlot(member));
  attempt_.SetStopRequest(AttemptRecord::PREEMPTED, "room", kNow);
  EXPECT_TRUE(attempt_.HoldsSlot(member));
  member.Lose();
  EXPECT_FALSE(attempt_.HoldsSlot(member));
}

TEST_F(AttemptTest, FailuresGetATimeWithinTheAttempt) {
  v1::Failure early;
  *early.mutable_time() = ToTimestamp(kNow - absl::Hours(1));
  const auto recorded = attempt_.AddFailure(early, kNow + absl::Seconds(1));
  ASSERT_TRUE(recorded.has_value());
  EXPECT_EQ(FromTimestamp(recorded->time()), kNow);
  EXPECT_EQ(recorded->failure_class(), v1::INTERNAL);
  EXPECT_EQ(recorded->attempt(), 1);
  v1::Failure late;
  *late.mutable_time() = ToTimestamp(kNow + absl::Hours(1));
  EXPECT_EQ(FromTimestamp(attempt_.AddFailure(late, kNow)->time()), kNow);
}

TEST_F(AttemptTest, TheResultCountsWhenTheModelIsStoredAsReported) {
  EXPECT_FALSE(attempt_.HasResult());
  ExitWithResult("jobs/a/models/m");
  EXPECT_TRUE(attempt_.HasResult());
  EXPECT_FALSE(attempt_.ModelsAreStored());
  v1::ArtifactFile file;
  file.set_path("a");
  file.set_sha256("another");
  attempt_.AddUpload("jobs/a/models/m", file);
  EXPECT_FALSE(attempt_.ModelsAreStored());
  file.clear_sha256();
  attempt_.AddUpload("jobs/a/models/m", file);
  EXPECT_TRUE(attempt_.ModelsAreStored());
  EXPECT_EQ(attempt_.record().uploads_size(), 1);
}

TEST_F(AttemptTest, ReportsAreAcceptedOnceAndInOrder) {
  EXPECT_TRUE(attempt_.AcceptReport(1));
  EXPECT_FALSE(attempt_.AcceptReport(1));
  // Numbers are places in what the member wrote, and not every line is a
  // report.
  EXPECT_TRUE(attempt_.AcceptReport(900));
  EXPECT_FALSE(attempt_.AcceptReport(899));
}

class AttemptClockTest : public AttemptTest {
 protected:
  // How long it has run, for a coordinator that takes over at `now`, if the
  // record was written after 5 seconds.
  absl::Duration RanFor(absl::Time now,
                        absl::Duration lead = absl::ZeroDuration()) {
    attempt_.MarkRunning(kNow);
    attempt_.MarkWritten(kNow + absl::Seconds(5));
    JobRecord copy = record_;
    Attempt restored(&copy);
    restored.AdoptClock(lead, now);
    return restored.RunningFor(now);
  }
};

TEST_F(AttemptClockTest, AClockThatDiffersALittleAddsNothing) {
  EXPECT_EQ(RanFor(kNow + absl::Seconds(25)), absl::Seconds(5));
  EXPECT_EQ(RanFor(kNow - absl::Seconds(20)), absl::Seconds(5));
}

TEST_F(AttemptClockTest, ALongAbsenceOfCoordinatorsCounts) {
  EXPECT_EQ(RanFor(kNow + absl::Hours(2)),
            absl::Hours(2) - Attempt::kClockTolerance);
}

TEST_F(AttemptClockTest, WhatTheClockIsAheadDoesNotCount) {
  EXPECT_EQ(RanFor(kNow + absl::Hours(31), absl::Hours(30)),
            absl::Hours(1) - Attempt::kClockTolerance);
}

TEST_F(AttemptClockTest, ItGoesOnByTheNewClock) {
  attempt_.MarkRunning(kNow);
  attempt_.MarkWritten(kNow + absl::Seconds(5));
  // It is 20 seconds behind, and a third one is right.
  const absl::Time behind = kNow - absl::Seconds(14);
  JobRecord second = record_;
  Attempt on_second(&second);
  on_second.AdoptClock(absl::ZeroDuration(), behind);
  EXPECT_EQ(on_second.RunningFor(behind + absl::Seconds(3)), absl::Seconds(8));
  on_second.MarkWritten(behind + absl::Seconds(3));
  JobRecord third = second;
  Attempt on_third(&third);
  on_third.AdoptClock(absl::ZeroDuration(), kNow + absl::Seconds(10));
  EXPECT_EQ(on_third.RunningFor(kNow + absl::Seconds(12)), absl::Seconds(10));
}

TEST_F(AttemptTest, AnotherCoordinatorFindsTheMembersInTheRecord) {
  JobRecord copy = record_;
  Attempt restored(&copy);
  restored.Restore(7, kNow);
  ASSERT_EQ(restored.members().size(), 3);
  EXPECT_EQ(restored.members()[2].worker(), "w2");
  EXPECT_EQ(restored.members()[2].JudgeAbsence(false, 6, kNow + absl::Hours(1),
                                               absl::Seconds(1)),
            GangMember::Absence::kTolerated);
}

}  // namespace
}  // namespace comera::server
