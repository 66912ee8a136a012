// Tests how a job goes from one state to the next.
#include "server/coordinator/lifecycle/job_lifecycle.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/proto_time.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class JobLifecycleTest : public ::testing::Test {
 protected:
  JobLifecycleTest() { parts_.AddWorker("w1"); }

  void Move(JobEntry& entry, v1::MemberStatus::Phase phase) {
    for (GangMember& member : entry.attempt().members()) {
      member.AdvancePhase(phase);
    }
    Operation op(parts_.now, &parts_.effects);
    parts_.lifecycle.Advance(entry, &op);
  }
  JobEntry& RunJob() {
    JobEntry& entry = parts_.StartJob("a", "w1");
    Move(entry, v1::MemberStatus::RUNNING);
    return entry;
  }
  void CheckDeadlinesAfter(absl::Duration duration, JobEntry& entry) {
    parts_.now += duration;
    Operation op(parts_.now, &parts_.effects);
    parts_.lifecycle.CheckDeadlines(entry, &op);
  }

  CoordinatorParts parts_;
};

TEST_F(JobLifecycleTest, APlacedJobIsKnownToItsWorker) {
  JobEntry& entry = parts_.StartJob("a", "w1");
  EXPECT_EQ(entry.state(), v1::STARTING);
  EXPECT_EQ(entry.job().reason(), "starting on w1");
  EXPECT_THAT(parts_.workers.Find("w1")->jobs(), ElementsAre("jobs/a"));
}

TEST_F(JobLifecycleTest, AFailureStopsTheGangAndTheJobIsTriedAgain) {
  JobEntry& entry = RunJob();
  EXPECT_EQ(entry.state(), v1::RUNNING);
  Operation op(parts_.now, &parts_.effects);
  parts_.failures.Record(entry, v1::RANK_LOST, 1, "died", &op);
  parts_.lifecycle.Advance(entry, &op);
  EXPECT_TRUE(entry.attempt().stopping());
  EXPECT_EQ(entry.state(), v1::RUNNING);
  Move(entry, v1::MemberStatus::EXITED);
  EXPECT_EQ(entry.state(), v1::QUEUED);
  EXPECT_THAT(parts_.workers.Find("w1")->jobs(), IsEmpty());
}

TEST_F(JobLifecycleTest, ALostWorkerLosesItsMembers) {
  JobEntry& entry = RunJob();
  Operation op(parts_.now, &parts_.effects);
  parts_.lifecycle.LoseMembers(*parts_.workers.Find("w1"), "is gone", &op);
  EXPECT_EQ(entry.state(), v1::QUEUED);
  EXPECT_EQ(entry.job().incidents(0).message(), "worker w1 is gone");
  EXPECT_TRUE(op.needs_schedule());
}

TEST_F(JobLifecycleTest, AMemberMustReportInTime) {
  JobEntry& entry = parts_.StartJob("a", "w1");
  CheckDeadlinesAfter(parts_.options.start_deadline, entry);
  EXPECT_FALSE(entry.attempt().stopping());
  CheckDeadlinesAfter(absl::Seconds(1), entry);
  EXPECT_TRUE(entry.attempt().stopping());
}

TEST_F(JobLifecycleTest, AMemberThatIsPreparedMayTakeItsTime) {
  JobEntry& entry = parts_.StartJob("a", "w1");
  const auto report = [&](absl::Duration silent) {
    for (GangMember& member : entry.attempt().members()) {
      v1::MemberStatus status;
      status.set_rank(member.number());
      status.set_phase(v1::MemberStatus::STARTING);
      *status.mutable_silent() = ToProtoDuration(silent);
      entry.attempt().ObserveMember(status, parts_.now);
      member.AdvancePhase(status.phase());
    }
  };
  report(absl::ZeroDuration());
  CheckDeadlinesAfter(absl::Hours(1), entry);
  EXPECT_FALSE(entry.attempt().stopping());
  // The process was started, and has given no sign of life since.
  report(parts_.options.start_deadline);
  CheckDeadlinesAfter(absl::Seconds(1), entry);
  EXPECT_FALSE(entry.attempt().stopping());
  report(parts_.options.start_deadline + absl::Seconds(1));
  CheckDeadlinesAfter(absl::Seconds(1), entry);
  EXPECT_TRUE(entry.attempt().stopping());
}

TEST_F(JobLifecycleTest, TheTimeLimitEndsTheJob) {
  JobEntry& entry = RunJob();
  *entry.mutable_job().mutable_spec()->mutable_time_limit() =
      ToProtoDuration(absl::Minutes(1));
  CheckDeadlinesAfter(absl::Seconds(61), entry);
  Move(entry, v1::MemberStatus::EXITED);
  EXPECT_EQ(entry.state(), v1::FAILED);
  EXPECT_EQ(entry.job().failure().failure_class(), v1::USER);
}

TEST_F(JobLifecycleTest, ACancelledJobEndsWithItsLastMember) {
  JobEntry& entry = RunJob();
  Operation op(parts_.now, &parts_.effects);
  parts_.lifecycle.Cancel(entry, "enough", &op);
  EXPECT_EQ(entry.state(), v1::CANCELLING);
  EXPECT_THAT(parts_.lifecycle.Pause(entry, "", &op),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  Move(entry, v1::MemberStatus::EXITED);
  EXPECT_EQ(entry.state(), v1::CANCELLED);
  EXPECT_EQ(entry.job().reason(), "enough");
}

TEST_F(JobLifecycleTest, APausedJobGoesOnWhenItIsResumed) {
  JobEntry& entry = RunJob();
  Operation op(parts_.now, &parts_.effects);
  ASSERT_OK(parts_.lifecycle.Pause(entry, "paused", &op));
  EXPECT_TRUE(entry.job().pausing());
  Move(entry, v1::MemberStatus::EXITED);
  EXPECT_EQ(entry.state(), v1::PAUSED);
  ASSERT_OK(parts_.lifecycle.Resume(entry, &op));
  EXPECT_EQ(entry.state(), v1::QUEUED);
}

}  // namespace
}  // namespace comera::server
