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
using ::testing::SizeIs;

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

  // From now on the members on w1 leave their models when they are asked.
  void ObeyFinish() {
    v1::SynchronizeRequest request = parts_.Report("w1");
    request.set_obeys_finish(true);
    parts_.workers.Find("w1")->ApplyReport(request, parts_.now,
                                           parts_.options.suspect_after);
  }

  // Member 0 leaves a model, and all members end.
  void LeaveModel(JobEntry& entry,
                  v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED) {
    v1::MemberStatus status;
    v1::Artifact& model = *status.mutable_model();
    model.set_name("jobs/a/models/best-1");
    model.add_files()->set_path("config.json");
    status.mutable_result()->set_outcome(outcome);
    entry.attempt().FindMember(0)->SetResult(status);
    entry.attempt().AddUpload(model.name(), model.files(0));
    Move(entry, v1::MemberStatus::EXITED);
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

TEST_F(JobLifecycleTest, ACancelledJobLeavesItsBestModel) {
  ObeyFinish();
  JobEntry& entry = RunJob();
  Operation op(parts_.now, &parts_.effects);
  parts_.lifecycle.Cancel(entry, "enough", &op);
  EXPECT_EQ(entry.state(), v1::CANCELLING);
  // The members stay wanted until member 0 has left its model.
  EXPECT_TRUE(entry.attempt().finishing());
  EXPECT_FALSE(entry.attempt().stopping());
  LeaveModel(entry);
  EXPECT_EQ(entry.state(), v1::CANCELLED);
  ASSERT_THAT(entry.job().models(), SizeIs(1));
  EXPECT_EQ(entry.job().models(0).name(), "jobs/a/models/best-1");
}

TEST_F(JobLifecycleTest, AModelThatDoesNotComeIsNotWaitedForLong) {
  ObeyFinish();
  JobEntry& entry = RunJob();
  Operation op(parts_.now, &parts_.effects);
  parts_.lifecycle.Cancel(entry, "enough", &op);
  CheckDeadlinesAfter(parts_.options.leave_model_deadline, entry);
  EXPECT_FALSE(entry.attempt().stopping());
  CheckDeadlinesAfter(absl::Seconds(1), entry);
  EXPECT_TRUE(entry.attempt().stopping());
  Move(entry, v1::MemberStatus::EXITED);
  EXPECT_EQ(entry.state(), v1::CANCELLED);
  EXPECT_THAT(entry.job().models(), IsEmpty());
}

TEST_F(JobLifecycleTest, AJobThatRanTooLongFailsAndLeavesItsBestModel) {
  ObeyFinish();
  JobEntry& entry = RunJob();
  *entry.mutable_job().mutable_spec()->mutable_time_limit() =
      ToProtoDuration(absl::Minutes(1));
  CheckDeadlinesAfter(absl::Seconds(61), entry);
  CheckDeadlinesAfter(absl::Seconds(1), entry);
  EXPECT_EQ(entry.state(), v1::RUNNING);
  EXPECT_FALSE(entry.attempt().stopping());
  EXPECT_THAT(entry.attempt().record().failures(), SizeIs(1));
  LeaveModel(entry);
  EXPECT_EQ(entry.state(), v1::FAILED);
  EXPECT_EQ(entry.job().failure().failure_class(), v1::USER);
  EXPECT_THAT(entry.job().models(), SizeIs(1));
}

TEST_F(JobLifecycleTest, AJobThatRanTooLongFailsWhateverItsMembersClocksSay) {
  ObeyFinish();
  JobEntry& entry = RunJob();
  *entry.mutable_job().mutable_spec()->mutable_time_limit() =
      ToProtoDuration(absl::Minutes(1));
  CheckDeadlinesAfter(absl::Seconds(61), entry);
  // Member 1 ends with member 0; the clock of its machine is behind.
  v1::Failure end;
  end.set_failure_class(v1::PREEMPTED);
  end.set_rank(1);
  *end.mutable_time() = ToTimestamp(parts_.now - absl::Seconds(5));
  Operation op(parts_.now, &parts_.effects);
  parts_.failures.Record(entry, end, &op);
  LeaveModel(entry);
  EXPECT_EQ(entry.state(), v1::FAILED);
  EXPECT_EQ(entry.job().failure().failure_class(), v1::USER);
}

TEST_F(JobLifecycleTest, AJobThatEndsItselfMeanwhileHasSucceeded) {
  ObeyFinish();
  JobEntry& entry = RunJob();
  *entry.mutable_job().mutable_spec()->mutable_time_limit() =
      ToProtoDuration(absl::Minutes(1));
  CheckDeadlinesAfter(absl::Seconds(61), entry);
  LeaveModel(entry, v1::TARGET_MET);
  EXPECT_EQ(entry.state(), v1::SUCCEEDED);
}

TEST_F(JobLifecycleTest, ACancelledJobThatEndsItselfMeanwhileKeepsItsModel) {
  ObeyFinish();
  JobEntry& entry = RunJob();
  Operation op(parts_.now, &parts_.effects);
  parts_.lifecycle.Cancel(entry, "enough", &op);
  v1::MemberStatus status;
  v1::Artifact& model = *status.mutable_model();
  model.set_name("jobs/a/models/final");
  model.add_files()->set_path("config.json");
  status.mutable_result()->set_outcome(v1::TARGET_MET);
  entry.attempt().FindMember(0)->SetResult(status);
  Move(entry, v1::MemberStatus::EXITED);
  // Its upload has only begun.
  EXPECT_EQ(entry.state(), v1::CANCELLING);
  entry.attempt().AddUpload(model.name(), model.files(0));
  parts_.lifecycle.Advance(entry, &op);
  EXPECT_EQ(entry.state(), v1::CANCELLED);
  EXPECT_THAT(entry.job().models(), SizeIs(1));
}

TEST_F(JobLifecycleTest, ASweepsJobMakesRoomAtOnceWhenItIsCancelled) {
  ObeyFinish();
  JobEntry& entry = RunJob();
  entry.mutable_job().set_sweep("sweeps/s");
  Operation op(parts_.now, &parts_.effects);
  parts_.lifecycle.Cancel(entry, "pruned", &op);
  EXPECT_TRUE(entry.attempt().stopping());
  EXPECT_FALSE(entry.attempt().finishing());
}

TEST_F(JobLifecycleTest, AResumedJobRemembersNoPauseOrWaitOfBefore) {
  JobEntry& entry = RunJob();
  entry.mutable_job().add_checkpoints()->set_step(40);
  Operation op(parts_.now, &parts_.effects);
  ASSERT_OK(parts_.lifecycle.Pause(entry, "paused", &op));
  parts_.lifecycle.Cancel(entry, "enough", &op);
  Move(entry, v1::MemberStatus::EXITED);
  ASSERT_EQ(entry.state(), v1::CANCELLED);
  EXPECT_FALSE(entry.job().pausing());
  ASSERT_OK(parts_.lifecycle.Resume(entry, &op));
  EXPECT_FALSE(entry.job().pausing());
  // It waits for its holder, and is cancelled.
  entry.BeginHolderWait(&op);
  entry.SetResizing(true);
  parts_.lifecycle.Cancel(entry, "enough", &op);
  parts_.now += absl::Hours(24);
  ASSERT_OK(parts_.lifecycle.Resume(entry, &op));
  EXPECT_FALSE(entry.holder_wait());
  EXPECT_FALSE(entry.record().resizing());
}

TEST_F(JobLifecycleTest, AnEndedJobGoesOnWithNewBudgetsWhenItIsResumed) {
  JobEntry& entry = RunJob();
  entry.mutable_job().mutable_spec()->mutable_retries()->set_infrastructure(0);
  entry.mutable_job().add_checkpoints()->set_step(40);
  Operation op(parts_.now, &parts_.effects);
  parts_.failures.Record(entry, v1::RANK_LOST, 1, "died", &op);
  Move(entry, v1::MemberStatus::EXITED);
  ASSERT_EQ(entry.state(), v1::FAILED);
  ASSERT_OK(parts_.lifecycle.Resume(entry, &op));
  EXPECT_EQ(entry.state(), v1::QUEUED);
  EXPECT_EQ(entry.job().reason(), "resumed, to go on from step 40");
  EXPECT_FALSE(entry.job().has_failure());
  EXPECT_FALSE(entry.job().has_end_time());
  EXPECT_EQ(entry.record().running_micros(), 0);
  ASSERT_THAT(entry.job().incidents(), SizeIs(1));
  EXPECT_EQ(entry.job().incidents(0).message(), "died");
}

TEST_F(JobLifecycleTest, WhatHasNoCheckpointBeginsAnewOnlyByItsOwnersWish) {
  JobEntry& entry = RunJob();
  Operation op(parts_.now, &parts_.effects);
  parts_.lifecycle.Cancel(entry, "", &op);
  Move(entry, v1::MemberStatus::EXITED);
  EXPECT_THAT(parts_.lifecycle.Resume(entry, &op),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  entry.mutable_job().set_sweep("sweeps/s");
  EXPECT_THAT(parts_.lifecycle.StartOver(entry, "ada", &op),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  entry.mutable_job().clear_sweep();
  ASSERT_OK(parts_.lifecycle.StartOver(entry, "ada", &op));
  EXPECT_EQ(entry.state(), v1::QUEUED);
  entry.End(v1::SUCCEEDED, "", &op);
  for (const auto& status : {parts_.lifecycle.Resume(entry, &op),
                             parts_.lifecycle.StartOver(entry, "", &op)}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
  }
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
