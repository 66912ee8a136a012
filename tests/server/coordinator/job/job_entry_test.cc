// Tests states, events, incidents and retries of one job.
#include "server/coordinator/job/job_entry.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

using ::testing::SizeIs;

class JobEntryTest : public ::testing::Test {
 protected:
  static JobRecord Record() {
    JobRecord record;
    record.set_serial(3);
    record.mutable_job()->set_name("jobs/a");
    return record;
  }

  Effects effects_;
  Operation op_{absl::FromUnixSeconds(1000000), &effects_};
  JobIndex index_;
  JobEntry entry_{Record(), &index_};
};

TEST_F(JobEntryTest, AChangeOfStateIsAnEventAndMovesTheJobInTheIndex) {
  entry_.SetState(v1::QUEUED, "waiting", &op_);
  EXPECT_THAT(index_.Queued(), SizeIs(1));
  entry_.SetState(v1::STARTING, "starting", &op_);
  EXPECT_THAT(index_.Queued(), SizeIs(0));
  EXPECT_EQ(index_.active().count("jobs/a"), 1);
  entry_.End(v1::SUCCEEDED, "done", &op_);
  EXPECT_TRUE(index_.active().empty());
  EXPECT_TRUE(entry_.job().has_end_time());
  ASSERT_THAT(effects_.events, SizeIs(3));
  EXPECT_EQ(effects_.events[2].sequence(), 3);
  EXPECT_EQ(effects_.events[2].state_change().reason(), "done");
  EXPECT_EQ(op_.changed_jobs().count("jobs/a"), 1);
}

TEST_F(JobEntryTest, ARepeatedIncidentIsShownOnce) {
  v1::Failure failure;
  failure.set_message("a replica is gone");
  entry_.AddIncident(failure, &op_);
  entry_.AddIncident(failure, &op_);
  EXPECT_THAT(entry_.job().incidents(), SizeIs(1));
  EXPECT_THAT(effects_.events, SizeIs(1));
}

TEST_F(JobEntryTest, KeepsTheFirstIncidents) {
  entry_.KeepIncidents(std::vector<v1::Failure>(100));
  EXPECT_THAT(entry_.job().incidents(), SizeIs(64));
}

TEST_F(JobEntryTest, AWaitReasonIsNewsOnceAndUntilTheStateChanges) {
  entry_.SetState(v1::QUEUED, "waiting", &op_);
  WaitReason reason;
  reason.kind = WaitReason::kNoRoom;
  EXPECT_TRUE(entry_.SetWaitReason(reason));
  EXPECT_FALSE(entry_.SetWaitReason(reason));
  entry_.SetState(v1::QUEUED, "waiting again", &op_);
  EXPECT_TRUE(entry_.SetWaitReason(reason));
}

TEST_F(JobEntryTest, ACheckpointEndsTheRowOfLosses) {
  EXPECT_EQ(entry_.CountLossInRow(), 1);
  EXPECT_EQ(entry_.CountLossInRow(), 2);
  v1::CheckpointSaved saved;
  saved.set_step(10);
  entry_.RecordCheckpoint(saved, "w1", op_.now());
  EXPECT_EQ(entry_.CountLossInRow(), 1);
  EXPECT_THAT(entry_.job().checkpoints(), SizeIs(1));
}

TEST_F(JobEntryTest, AWaitForTheNextAttemptIsStoredAndBoundedAfterARestart) {
  entry_.ScheduleRetry(absl::ZeroDuration(), op_.now());
  EXPECT_FALSE(entry_.record().has_retry_time());
  entry_.ScheduleRetry(absl::Hours(1), op_.now());
  EXPECT_EQ(entry_.retry_at(), op_.now() + absl::Hours(1));
  JobEntry restored(entry_.record(), nullptr);
  restored.Restore(1, op_.now() + absl::Minutes(1), absl::ZeroDuration(),
                   op_.now());
  EXPECT_EQ(restored.retry_at(), op_.now() + absl::Minutes(1));
}

TEST_F(JobEntryTest, AnAttemptResumesFromTheStateThatWasChosenForIt) {
  entry_.mutable_job().set_attempt(1);
  EXPECT_FALSE(entry_.resumes());
  v1::TrainingStateKey state;
  state.set_attempt(1);
  state.set_step(20);
  entry_.RecordStart(state);
  entry_.mutable_job().set_attempt(2);
  EXPECT_TRUE(entry_.resumes());
  EXPECT_EQ(entry_.start()->step(), 20);
  entry_.StartOver();
  EXPECT_TRUE(entry_.record().start_over());
  entry_.RecordStart(v1::TrainingStateKey());
  entry_.mutable_job().set_attempt(3);
  EXPECT_FALSE(entry_.resumes());
  EXPECT_FALSE(entry_.record().start_over());
  EXPECT_FALSE(entry_.lineage().Contains(1, 20));
}

TEST_F(JobEntryTest, AnAttemptOfAnEarlierVersionResumesFromTheNewest) {
  entry_.mutable_job().set_attempt(2);
  EXPECT_EQ(entry_.start(), nullptr);
  EXPECT_TRUE(entry_.resumes());
  entry_.StartOver();
  EXPECT_FALSE(entry_.resumes());
}

TEST_F(JobEntryTest, AnAttemptThatBeganEarlierThanItShouldIsAnIncident) {
  entry_.mutable_job().set_attempt(1);
  v1::TrainingStateKey state;
  state.set_attempt(1);
  state.set_step(20);
  entry_.RecordStart(state);
  entry_.mutable_job().set_attempt(2);
  entry_.CheckBegun(20, &op_);
  EXPECT_THAT(entry_.job().incidents(), SizeIs(0));
  entry_.CheckBegun(0, &op_);
  ASSERT_THAT(entry_.job().incidents(), SizeIs(1));
  EXPECT_EQ(entry_.job().incidents(0).message(),
            "attempt 2 was to go on from step 20 and began from step 0");
  EXPECT_FALSE(entry_.lineage().Contains(1, 20));
}

TEST_F(JobEntryTest, AnUnreadableStateOfAnEarlierVersionIsTheNewestNamed) {
  entry_.mutable_job().set_attempt(1);
  EXPECT_EQ(entry_.ExcludeStart(), std::nullopt);
  v1::CheckpointSaved saved;
  for (int64_t step : {10, 20}) {
    saved.set_step(step);
    entry_.RecordCheckpoint(saved, "w1", op_.now());
  }
  entry_.mutable_job().set_attempt(2);
  EXPECT_EQ(entry_.ExcludeStart(), 20);
  ASSERT_THAT(entry_.job().checkpoints(), SizeIs(1));
  EXPECT_EQ(entry_.job().checkpoints(0).step(), 10);
}

TEST_F(JobEntryTest, ATroubleIsToldOnceForAnAttempt) {
  entry_.mutable_job().set_attempt(1);
  v1::MemberTrouble trouble;
  trouble.set_failure_class(v1::DISK_FULL);
  trouble.set_message("no room for copies");
  for (int i = 0; i < 3; ++i) entry_.AddTrouble(trouble, &op_);
  EXPECT_THAT(effects_.events, SizeIs(1));
  entry_.mutable_job().set_attempt(2);
  entry_.AddTrouble(trouble, &op_);
  EXPECT_THAT(effects_.events, SizeIs(2));
  for (int i = 0; i < 1000; ++i) {
    trouble.set_message(std::to_string(i));
    entry_.AddTrouble(trouble, &op_);
  }
  EXPECT_THAT(effects_.events, SizeIs(1 + 16));
}

TEST_F(JobEntryTest, AHolderIsWaitedForSinceTheFirstTime) {
  EXPECT_EQ(entry_.holder_wait(), std::nullopt);
  entry_.BeginHolderWait(&op_);
  Operation later(op_.now() + absl::Minutes(1), &effects_);
  entry_.BeginHolderWait(&later);
  EXPECT_EQ(entry_.holder_wait(), op_.now());
  // The clock of the next coordinator may be slow.
  JobEntry restored(entry_.record(), nullptr);
  restored.Restore(1, op_.now(), absl::ZeroDuration(),
                   op_.now() - absl::Hours(1));
  EXPECT_EQ(restored.holder_wait(), op_.now() - absl::Hours(1));
  entry_.EndHolderWait(&op_);
  EXPECT_EQ(entry_.holder_wait(), std::nullopt);
}

TEST_F(JobEntryTest, EachStoredChangeHasARevision) {
  EXPECT_EQ(entry_.CommitRevision(op_.now()).job().etag(), "1");
  EXPECT_EQ(entry_.CommitRevision(op_.now()).job().etag(), "2");
}

TEST_F(JobEntryTest, TheRecordOfARunningJobSaysWhenItWasWritten) {
  entry_.attempt().Begin(op_.now());
  EXPECT_FALSE(entry_.CommitRevision(op_.now()).attempt().has_written_time());
  entry_.attempt().MarkRunning(op_.now());
  EXPECT_EQ(entry_.CommitRevision(op_.now()).attempt().written_time().seconds(),
            absl::ToUnixSeconds(op_.now()));
}

}  // namespace
}  // namespace comera::server
