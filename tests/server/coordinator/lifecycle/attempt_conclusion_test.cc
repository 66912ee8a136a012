// Tests what a job becomes when all members of its attempt have ended.
#include "server/coordinator/lifecycle/attempt_conclusion.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class AttemptConclusionTest : public ::testing::Test {
 protected:
  AttemptConclusionTest() {
    parts_.AddWorker("w1");
    entry_ = &parts_.StartJob("a", "w1");
    for (GangMember& member : entry_->attempt().members()) {
      member.AdvancePhase(v1::MemberStatus::EXITED);
    }
  }

  void Fail(v1::FailureClass failure_class) {
    parts_.failures.Record(*entry_, failure_class, 1, "died", &op_);
  }
  void SetResult(const v1::MemberStatus& status) {
    entry_->attempt().members()[0].SetResult(status);
  }
  void Conclude() {
    AttemptConclusion(&parts_.options, &parts_.workers, &parts_.failures)
        .Conclude(*entry_, &op_);
  }

  CoordinatorParts parts_;
  Operation op_{parts_.now, &parts_.effects};
  JobEntry* entry_;
};

TEST_F(AttemptConclusionTest, AResultWithoutAModelIsSuccess) {
  v1::MemberStatus status;
  status.mutable_result()->set_reason("targets met");
  SetResult(status);
  Conclude();
  EXPECT_EQ(entry_->state(), v1::SUCCEEDED);
  EXPECT_EQ(entry_->job().outcome(), v1::COMPLETED);
  EXPECT_EQ(entry_->job().reason(), "targets met");
}

TEST_F(AttemptConclusionTest, AModelIsWaitedFor) {
  v1::MemberStatus status;
  status.mutable_result();
  status.mutable_model()->set_name("jobs/a/models/m");
  status.mutable_model()->add_files()->set_path("a");
  SetResult(status);
  Conclude();
  EXPECT_EQ(entry_->state(), v1::STARTING);
  entry_->attempt().AddUpload(
      "jobs/a/models/m",
      entry_->attempt().record().members(0).model().files(0));
  Conclude();
  EXPECT_EQ(entry_->state(), v1::SUCCEEDED);
  EXPECT_THAT(entry_->job().models(), SizeIs(1));
}

TEST_F(AttemptConclusionTest, AnInfrastructureFailureIsRetried) {
  Fail(v1::RANK_LOST);
  Conclude();
  EXPECT_EQ(entry_->state(), v1::QUEUED);
  EXPECT_THAT(entry_->job().reason(), HasSubstr("trying again"));
  EXPECT_THAT(entry_->job().incidents(), SizeIs(1));
  EXPECT_TRUE(op_.needs_schedule());
}

TEST_F(AttemptConclusionTest, ALossThatIsNotChargedSaysSo) {
  entry_->attempt().NoteMassSilence();
  Fail(v1::NODE_LOST);
  Conclude();
  EXPECT_EQ(entry_->record().infrastructure_losses(), 0);
  EXPECT_THAT(entry_->job().reason(),
              HasSubstr("charged to no budget because most workers were"));
}

TEST_F(AttemptConclusionTest, AUsersFailureIsFinalAndKeptApart) {
  Fail(v1::USER);
  Conclude();
  EXPECT_EQ(entry_->state(), v1::FAILED);
  EXPECT_EQ(entry_->job().failure().message(), "died");
  EXPECT_THAT(entry_->job().incidents(), SizeIs(0));
}

TEST_F(AttemptConclusionTest, MembersThatEndWithoutAWordAreLost) {
  Conclude();
  EXPECT_EQ(entry_->state(), v1::QUEUED);
  ASSERT_THAT(entry_->job().incidents(), SizeIs(1));
  EXPECT_EQ(entry_->job().incidents(0).failure_class(), v1::RANK_LOST);
  EXPECT_EQ(entry_->record().infrastructure_losses(), 1);
}

TEST_F(AttemptConclusionTest, APreemptedJobIsChargedNothing) {
  entry_->attempt().SetStopRequest(AttemptRecord::PREEMPTED, "makes room",
                                   parts_.now);
  Fail(v1::USER);
  Conclude();
  EXPECT_EQ(entry_->state(), v1::QUEUED);
  EXPECT_EQ(entry_->record().preemptions(), 1);
  EXPECT_EQ(entry_->record().losses_in_row(), 0);
  EXPECT_EQ(entry_->job().reason(), "stopped: makes room");
}

TEST_F(AttemptConclusionTest, StepsThatAStoppedGangDidNotSaveAreTold) {
  entry_->attempt().SetStopRequest(AttemptRecord::PAUSED, "by its owner",
                                   parts_.now);
  v1::Checkpoint& saved = *entry_->mutable_job().add_checkpoints();
  saved.set_step(10);
  saved.set_attempt(1);
  entry_->mutable_job().mutable_progress()->set_step(12);
  Conclude();
  ASSERT_THAT(entry_->job().incidents(), SizeIs(1));
  EXPECT_THAT(entry_->job().incidents(0).message(),
              HasSubstr("stopped at step 12 before it had saved its state; its "
                        "newest checkpoint is that of step 10"));
}

TEST_F(AttemptConclusionTest, AStoppedGangThatSavedAllIsNoIncident) {
  entry_->attempt().SetStopRequest(AttemptRecord::PAUSED, "by its owner",
                                   parts_.now);
  v1::Checkpoint& saved = *entry_->mutable_job().add_checkpoints();
  saved.set_step(12);
  saved.set_attempt(1);
  entry_->mutable_job().mutable_progress()->set_step(12);
  Conclude();
  EXPECT_THAT(entry_->job().incidents(), SizeIs(0));
}

TEST_F(AttemptConclusionTest, ADamagedCheckpointIsNotUsedAgain) {
  entry_->mutable_job().set_attempt(2);
  for (int64_t step : {10, 20}) {
    v1::Checkpoint* named = entry_->mutable_job().add_checkpoints();
    named->set_step(step);
    named->set_attempt(1);
  }
  Fail(v1::CHECKPOINT_DAMAGED);
  Conclude();
  EXPECT_FALSE(entry_->record().start_over());
  ASSERT_THAT(entry_->job().checkpoints(), SizeIs(1));
  EXPECT_EQ(entry_->job().checkpoints(0).step(), 10);
  EXPECT_THAT(entry_->job().incidents().rbegin()->message(),
              HasSubstr("step 20 cannot be read; the checkpoint of step 10"));
}

}  // namespace
}  // namespace comera::server
