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
  entry_.StartOver();
  entry_.mutable_job().set_attempt(2);
  EXPECT_FALSE(entry_.resumes());
  v1::CheckpointSaved saved;
  saved.set_step(10);
  entry_.RecordCheckpoint(saved, "w1", op_.now());
  EXPECT_TRUE(entry_.resumes());
  EXPECT_EQ(entry_.CountLossInRow(), 1);
  EXPECT_THAT(entry_.job().checkpoints(), SizeIs(1));
}

TEST_F(JobEntryTest, AWaitForTheNextAttemptIsStoredAndBoundedAfterARestart) {
  entry_.ScheduleRetry(absl::ZeroDuration(), op_.now());
  EXPECT_FALSE(entry_.record().has_retry_time());
  entry_.ScheduleRetry(absl::Hours(1), op_.now());
  EXPECT_EQ(entry_.retry_at(), op_.now() + absl::Hours(1));
  JobEntry restored(entry_.record(), nullptr);
  restored.Restore(1, op_.now() + absl::Minutes(1), op_.now());
  EXPECT_EQ(restored.retry_at(), op_.now() + absl::Minutes(1));
}

TEST_F(JobEntryTest, EachStoredChangeHasARevision) {
  EXPECT_EQ(entry_.CommitRevision().job().etag(), "1");
  EXPECT_EQ(entry_.CommitRevision().job().etag(), "2");
}

}  // namespace
}  // namespace comera::server
