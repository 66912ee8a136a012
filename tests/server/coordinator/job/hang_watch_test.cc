// Tests which member of a gang is found to hang.
#include "server/coordinator/job/hang_watch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;

class HangWatchTest : public ::testing::Test {
 protected:
  HangWatchTest() {
    for (int i = 0; i < 3; ++i) {
      attempt_.add_members()->set_phase(v1::MemberStatus::RUNNING);
      v1::MemberStatus status;
      status.set_rank(i);
      status.set_phase(v1::MemberStatus::RUNNING);
      status.set_stage(v1::EARLY);
      members_.push_back(status);
    }
    // Each step takes a second.
    for (int step = 1; step <= 5; ++step) All(step, 10 * step, 10 * step);
  }

  void All(int64_t step, int64_t collectives, int64_t begun) {
    now_ += absl::Seconds(1);
    for (v1::MemberStatus& status : members_) {
      status.set_step(step);
      status.set_collectives(collectives);
      status.set_collectives_begun(begun);
      watch_.Observe(status, now_);
    }
  }

  void Stand(int rank, absl::Duration stalled,
             absl::Duration silent = absl::ZeroDuration()) {
    *members_[rank].mutable_stalled() = ToProtoDuration(stalled);
    *members_[rank].mutable_silent() = ToProtoDuration(silent);
    watch_.Observe(members_[rank], now_);
  }

  void AllStand(absl::Duration stalled) {
    for (int rank = 0; rank < 3; ++rank) Stand(rank, stalled);
  }

  std::optional<HangWatch::Hang> Find() const {
    return watch_.Find({}, attempt_);
  }

  HangWatch watch_;
  AttemptRecord attempt_;
  std::vector<v1::MemberStatus> members_;
  absl::Time now_ = absl::FromUnixSeconds(1000000);
};

// jax#38503: one member is alive but stuck, the others wait in the collective.
TEST_F(HangWatchTest, Complaint01_TheStuckRankAndItsCollectiveAreNamed) {
  members_[0].set_collectives_begun(51);
  members_[2].set_collectives_begun(51);
  AllStand(absl::Seconds(27));
  EXPECT_FALSE(Find().has_value());
  AllStand(absl::Seconds(28));
  ASSERT_TRUE(Find().has_value());
  EXPECT_EQ(Find()->member, 1);
  EXPECT_THAT(Find()->message,
              HasSubstr("member 1 has stood still for 28s: at step 5, before "
                        "collective 51; the others wait in collective 51"));
}

TEST_F(HangWatchTest, Complaint01_AStoppedProcessIsNamedWhateverTheOthersDo) {
  members_[2].set_collectives_begun(51);
  Stand(2, absl::Seconds(29), absl::Seconds(29));
  ASSERT_TRUE(Find().has_value());
  EXPECT_EQ(Find()->member, 2);
  EXPECT_THAT(
      Find()->message,
      HasSubstr("no sign of life for 29s: at step 5, in collective 51"));
}

TEST_F(HangWatchTest, AGangOfWhichOneRankMovesDoesNotHang) {
  AllStand(absl::Minutes(3));
  Stand(1, absl::Seconds(2));
  EXPECT_FALSE(Find().has_value());
}

TEST_F(HangWatchTest, LongStepsHaveLongerPatience) {
  now_ += absl::Seconds(59);
  All(6, 60, 60);  // A minute passes.
  AllStand(absl::Minutes(4));
  EXPECT_FALSE(Find().has_value());
  AllStand(absl::Minutes(5));
  EXPECT_TRUE(Find().has_value());
}

TEST_F(HangWatchTest, WhatIsNoStepHasItsOwnPatience) {
  members_[0].set_activity("validating");
  for (v1::MemberStatus& status : members_) status.set_collectives_begun(51);
  members_[0].set_collectives_begun(50);
  AllStand(absl::Seconds(200));
  EXPECT_FALSE(Find().has_value());
  AllStand(absl::Minutes(5));
  ASSERT_TRUE(Find().has_value());
  EXPECT_EQ(Find()->member, 0);
  EXPECT_THAT(Find()->message, HasSubstr("validating"));
}

TEST_F(HangWatchTest, BeforeTheFirstStepAndInPreparation) {
  watch_.Reset();
  for (v1::MemberStatus& status : members_) {
    status.set_step(0);
    status.set_collectives(0);
    status.set_collectives_begun(0);
    status.set_stage(v1::PREPARING);
    status.set_activity("meeting the other members");
  }
  members_[1].set_activity("tokenising 7 of 9");
  AllStand(absl::Minutes(2));
  EXPECT_FALSE(Find().has_value());
  AllStand(absl::Minutes(6));
  EXPECT_TRUE(Find().has_value());
}

TEST_F(HangWatchTest, AllInOneCollectiveIsNobodysFault) {
  for (v1::MemberStatus& status : members_) status.set_collectives_begun(51);
  AllStand(absl::Seconds(40));
  ASSERT_TRUE(Find().has_value());
  EXPECT_EQ(Find()->member, -1);
  EXPECT_THAT(Find()->message,
              HasSubstr("all members have waited in collective "
                        "51 for 40s"));
}

TEST_F(HangWatchTest, RankZeroThatHangsAfterTheOthersEnded) {
  attempt_.mutable_members(1)->set_phase(v1::MemberStatus::EXITED);
  attempt_.mutable_members(2)->set_phase(v1::MemberStatus::EXITED);
  Stand(0, absl::Seconds(30));
  ASSERT_TRUE(Find().has_value());
  EXPECT_EQ(Find()->member, 0);
}

// A member that has not reported yet may be the one that moves.
TEST_F(HangWatchTest, NothingIsSaidWhileARankIsUnknown) {
  watch_.Reset();
  Stand(0, absl::Minutes(9));
  EXPECT_FALSE(Find().has_value());
}

}  // namespace
}  // namespace comera::server
