// Tests what a worker's silence about a member means, and its phases.
#include "server/coordinator/job/gang_member.h"

#include "gtest/gtest.h"

namespace comera::server {
namespace {

using Absence = GangMember::Absence;

class GangMemberTest : public ::testing::Test {
 protected:
  Absence Judge(bool stopping, int64_t seen_version, absl::Duration after) {
    return member_.JudgeAbsence(stopping, seen_version, kNow + after,
                                absl::Seconds(10));
  }

  const absl::Time kNow = absl::FromUnixSeconds(1000000);
  MemberRecord record_;
  GangMember member_{1, &record_, kNow};
};

TEST_F(GangMemberTest, ThePhaseNeverGoesBack) {
  EXPECT_TRUE(member_.AdvancePhase(v1::MemberStatus::RUNNING));
  EXPECT_FALSE(member_.AdvancePhase(v1::MemberStatus::STARTING));
  EXPECT_FALSE(member_.AdvancePhase(v1::MemberStatus::RUNNING));
  EXPECT_TRUE(member_.HasStarted());
  EXPECT_FALSE(member_.HasEnded());
  EXPECT_TRUE(member_.AdvancePhase(v1::MemberStatus::EXITED));
  EXPECT_TRUE(member_.HasEnded());
}

TEST_F(GangMemberTest, ALostMemberHasEnded) {
  member_.Lose();
  EXPECT_TRUE(member_.HasEnded());
  EXPECT_FALSE(member_.HasStarted());
}

TEST_F(GangMemberTest, AWantedMemberIsMissingAfterAWhileIfTheWorkerKnows) {
  member_.set_start_version(5);
  EXPECT_EQ(Judge(false, 4, absl::Seconds(60)), Absence::kTolerated);
  EXPECT_EQ(Judge(false, 5, absl::Seconds(9)), Absence::kTolerated);
  EXPECT_EQ(Judge(false, 5, absl::Seconds(11)), Absence::kMissing);
  member_.MarkListed(kNow + absl::Seconds(5));
  EXPECT_EQ(Judge(false, 5, absl::Seconds(11)), Absence::kTolerated);
}

TEST_F(GangMemberTest, AnUnwantedMemberNeverStartedOnceTheWorkerKnows) {
  member_.set_stop_version(7);
  EXPECT_EQ(Judge(true, 6, absl::Seconds(60)), Absence::kTolerated);
  EXPECT_EQ(Judge(true, 7, absl::ZeroDuration()), Absence::kNeverStarted);
}

TEST_F(GangMemberTest, BelongsToOneLifeOfItsWorker) {
  record_.set_worker("w1");
  record_.set_incarnation("i1");
  EXPECT_TRUE(member_.RunsOn("w1", "i1"));
  EXPECT_FALSE(member_.RunsOn("w1", "i2"));
  EXPECT_FALSE(member_.RunsOn("w2", "i1"));
}

}  // namespace
}  // namespace comera::server
