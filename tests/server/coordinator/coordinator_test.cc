// Traces of the coordinator's state machine: lives of jobs.
#include "server/coordinator/coordinator.h"

#include "common/status_matchers.h"
#include "tests/server/coordinator/coordinator_fixture.h"
#include "tests/server/prepared_test_job.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Worker = CoordinatorHarness::Worker;

TEST_F(CoordinatorTest, JobRunsToItsResult) {
  const std::string name = h_.Submit(2);
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  v1::SynchronizeResponse answer = *h_.Sync(w1_);
  answer = *h_.Sync(w1_);
  ASSERT_THAT(answer.desired(), SizeIs(2));
  EXPECT_EQ(answer.desired(0).job(), name);
  EXPECT_EQ(answer.desired(0).attempt(), 1);
  EXPECT_EQ(answer.desired(1).rank(), 1);
  EXPECT_EQ(answer.desired(1).world_size(), 2);
  EXPECT_EQ(answer.desired(1).local_rank(), 1);
  EXPECT_NE(answer.desired(0).slot(), answer.desired(1).slot());
  EXPECT_FALSE(answer.desired(0).resume());
  EXPECT_EQ(answer.desired(0).spec().training().batch_size(), 8);

  w1_.members = {Status(name, 1, 0, kStarting),
                 Status(name, 1, 1, kStarting, 1)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::STARTING);
  w1_.members[0].set_phase(kRunning);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::STARTING);
  w1_.members[1].set_phase(kRunning);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  EXPECT_TRUE(h_.job(name).has_start_time());

  w1_.members = {Result(name, 1), Status(name, 1, 1, kExited, 1)};
  answer = *h_.Sync(w1_);
  EXPECT_THAT(answer.forget(), SizeIs(2));
  EXPECT_THAT(answer.desired(), SizeIs(0));
  EXPECT_EQ(h_.job(name).state(), v1::SUCCEEDED);
  EXPECT_EQ(h_.job(name).outcome(), v1::TARGET_MET);
  EXPECT_EQ(h_.job(name).reason(), "targets met at step 90");
  EXPECT_THAT(h_.States(name),
              ElementsAre("QUEUED", "STARTING", "RUNNING", "SUCCEEDED"));
}

TEST_F(CoordinatorTest, WaitsForWholeGangAndSaysForWhat) {
  w1_.slots = 1;
  ASSERT_OK(h_.Sync(w1_));
  const std::string name = h_.Submit(2);
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  EXPECT_EQ(h_.reasons[name], "waiting for 2 CPU slots, the cluster has 1");
  w2_.slots = 1;
  w2_.members = {Status("jobs/other", 3, 0, kRunning)};
  ASSERT_OK(h_.Sync(w2_));
  EXPECT_EQ(h_.reasons[name], "waiting for 2 free CPU slots, 1 free");
  w2_.members.clear();
  ASSERT_OK(h_.Sync(w2_));
  EXPECT_EQ(h_.job(name).state(), v1::STARTING);
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(1));
  EXPECT_EQ(h_.Sync(w2_)->desired(0).local_world_size(), 1);
}

TEST_F(CoordinatorTest, LostRankStopsTheOthersThenRetriesWithNextAttempt) {
  const std::string name = RunningJob();
  w1_.members[1] = Failed(name, 1, 1, v1::RANK_LOST, h_.now);
  v1::SynchronizeResponse answer = *h_.Sync(w1_);
  EXPECT_THAT(answer.desired(), SizeIs(0));
  ASSERT_THAT(answer.forget(), SizeIs(1));
  EXPECT_EQ(answer.forget(0).rank(), 1);
  // Member 0 still runs: nothing of the next attempt may start.
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  EXPECT_EQ(h_.job(name).attempt(), 1);
  w1_.members = {Failed(name, 1, 0, v1::COLLECTIVE_HANG, h_.now)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::STARTING);
  EXPECT_EQ(h_.job(name).attempt(), 2);
  EXPECT_THAT(h_.job(name).incidents(), SizeIs(2));
  EXPECT_EQ(h_.job(name).incidents(0).failure_class(), v1::RANK_LOST);
  w1_.members.clear();
  answer = *h_.Sync(w1_);
  ASSERT_THAT(answer.desired(), SizeIs(2));
  EXPECT_EQ(answer.desired(0).attempt(), 2);
  // Nothing was ever saved.
  EXPECT_FALSE(answer.desired(0).resume());
  EXPECT_THAT(h_.States(name), ElementsAre("QUEUED", "STARTING", "RUNNING",
                                           "QUEUED", "STARTING"));
}

TEST_F(CoordinatorTest, CauseIsTheFirstFailureThatIsNoConsequence) {
  const std::string name = RunningJob();
  // The peer saw the collective break before the worker saw member 1 end.
  w1_.members = {Failed(name, 1, 0, v1::COLLECTIVE_HANG, h_.now),
                 Failed(name, 1, 1, v1::DATA, h_.now + absl::Seconds(1))};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::FAILED);
  EXPECT_EQ(h_.job(name).failure().failure_class(), v1::DATA);
  EXPECT_EQ(h_.job(name).failure().rank(), 1);
  EXPECT_THAT(h_.job(name).incidents(), SizeIs(1));
}

struct BudgetCase {
  v1::FailureClass failure_class;
  // The number of attempts until the job fails.
  int attempts;
};

class BudgetTest : public ::testing::TestWithParam<BudgetCase> {};

TEST_P(BudgetTest, EachClassHasItsBudget) {
  CoordinatorHarness h;
  Worker w1{"w1"};
  v1::JobSpec spec = TestSpec(1);
  spec.mutable_retries()->set_infrastructure(2);
  spec.mutable_retries()->set_training(1);
  const std::string name = h.Submit(spec);
  int attempts = 0;
  while (h.job(name).state() != v1::FAILED) {
    ASSERT_LT(attempts, 10);
    w1.members.clear();
    h.Advance(absl::Seconds(3));  // the back-off between attempts
    h.Follow(w1, kRunning);
    ++attempts;
    ASSERT_EQ(h.job(name).attempt(), attempts);
    w1.members = {Failed(name, attempts, 0, GetParam().failure_class, h.now)};
    ASSERT_OK(h.Sync(w1));
  }
  EXPECT_EQ(attempts, GetParam().attempts);
  EXPECT_EQ(h.job(name).failure().failure_class(), GetParam().failure_class);
  EXPECT_THAT(h.job(name).incidents(), SizeIs(attempts - 1));
}

INSTANTIATE_TEST_SUITE_P(Classes, BudgetTest,
                         ::testing::Values(BudgetCase{v1::USER, 1},
                                           BudgetCase{v1::DATA, 1},
                                           BudgetCase{v1::OUT_OF_MEMORY, 2},
                                           BudgetCase{v1::NAN_LOSS, 2},
                                           BudgetCase{v1::DIVERGED, 2},
                                           BudgetCase{v1::INTERNAL, 2},
                                           BudgetCase{v1::NODE_LOST, 3},
                                           BudgetCase{v1::RANK_LOST, 3},
                                           BudgetCase{v1::COLLECTIVE_HANG, 3},
                                           BudgetCase{v1::DISK_FULL, 3}));

TEST_F(CoordinatorTest, CancelQueuedIsImmediate) {
  const std::string name = h_.Submit(2);
  EXPECT_EQ(h_.Cancel(name)->state(), v1::CANCELLED);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(0));
  EXPECT_THAT(h_.Cancel("jobs/none"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CoordinatorTest, CancelRunningWaitsForEveryRankAlsoOverARestart) {
  const std::string name = RunningJob();
  EXPECT_EQ(h_.Cancel(name)->state(), v1::CANCELLING);
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(0));
  w1_.members[0].set_phase(kExited);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::CANCELLING);
  h_.Restart();
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(0));
  EXPECT_EQ(h_.job(name).state(), v1::CANCELLING);
  w1_.members = {Failed(name, 1, 1, v1::RANK_LOST, h_.now)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::CANCELLED);
  EXPECT_THAT(h_.States(name), ElementsAre("QUEUED", "STARTING", "RUNNING",
                                           "CANCELLING", "CANCELLED"));
  // Nothing changes a final job.
  EXPECT_EQ(h_.Cancel(name)->state(), v1::CANCELLED);
  EXPECT_THAT(h_.States(name), SizeIs(5));
}

TEST_F(CoordinatorTest, CancelBeforeTheWorkerSawTheJob) {
  ASSERT_OK(h_.Sync(w1_));
  const std::string name = h_.Submit(2);
  EXPECT_EQ(h_.job(name).state(), v1::STARTING);
  EXPECT_EQ(h_.Cancel(name)->state(), v1::CANCELLING);
  // This report was written before the worker knew: it might start the members.
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::CANCELLING);
  // Now it knows, and has none.
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::CANCELLED);
}

TEST_F(CoordinatorTest, CancellingEndsWhenTheWorkerIsLost) {
  const std::string name = RunningJob();
  ASSERT_OK(h_.Cancel(name));
  h_.Advance(absl::Seconds(61));
  EXPECT_EQ(h_.job(name).state(), v1::CANCELLED);
}

TEST_F(CoordinatorTest, ResultWinsOverTheEndOfAnotherRank) {
  const std::string name = RunningJob();
  w1_.members = {Status(name, 1, 0, kRunning),
                 Failed(name, 1, 1, v1::RANK_LOST, h_.now)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  w1_.members = {Result(name, 1)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::SUCCEEDED);
  EXPECT_THAT(h_.job(name).incidents(), SizeIs(1));
}

TEST_F(CoordinatorTest, SucceedsOnlyWithItsModel) {
  const std::string name = RunningJob();
  v1::MemberStatus result = Result(name, 1);
  result.mutable_model()->set_name(name + "/models/final");
  for (const char* path : {"config.json", "model.safetensors"}) {
    v1::ArtifactFile* file = result.mutable_model()->add_files();
    file->set_path(path);
    file->set_size_bytes(3);
    file->set_sha256(std::string(64, 'a'));
  }
  w1_.members = {result, Status(name, 1, 1, kExited)};
  v1::SynchronizeResponse answer = *h_.Sync(w1_);
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  ASSERT_THAT(answer.forget(), SizeIs(1));
  EXPECT_EQ(answer.forget(0).rank(), 1);

  v1::UploadArtifactHeader header;
  header.set_artifact(name + "/models/final");
  header.set_attempt(1);
  *header.mutable_file() = result.model().files(0);
  Effects effects;
  ASSERT_OK(h_.coordinator->ArtifactStored(header, "w1", h_.now, &effects));
  EXPECT_EQ(effects.records.at(name).job().state(), v1::RUNNING);
  EXPECT_THAT(effects.records.at(name).job().models(), SizeIs(0));
  // The same file stored twice is one file.
  ASSERT_OK(h_.coordinator->ArtifactStored(header, "w1", h_.now, &effects));
  EXPECT_EQ(effects.records.at(name).job().state(), v1::RUNNING);
  *header.mutable_file() = result.model().files(1);
  header.set_attempt(2);
  EXPECT_THAT(h_.coordinator->ArtifactStored(header, "w1", h_.now, &effects),
              StatusIs(absl::StatusCode::kAborted));
  header.set_attempt(1);
  ASSERT_OK(h_.coordinator->ArtifactStored(header, "w1", h_.now, &effects));
  EXPECT_EQ(effects.records.at(name).job().state(), v1::SUCCEEDED);
  EXPECT_EQ(effects.records.at(name).job().models(0).files_size(), 2);
}

TEST_F(CoordinatorTest, SucceedsOnlyWithTheModelOfEveryTarget) {
  const std::string name = RunningJob();
  v1::MemberStatus result = Result(name, 1);
  const auto describe = [&](const std::string& id, v1::Artifact* model) {
    model->set_name(name + "/models/" + id);
    v1::ArtifactFile* file = model->add_files();
    file->set_path("config.json");
    file->set_size_bytes(3);
    file->set_sha256(std::string(64, 'a'));
  };
  describe("final", result.mutable_model());
  describe("target-1", result.add_target_models());
  describe("target-2", result.add_target_models());
  w1_.members = {result, Status(name, 1, 1, kExited)};
  ASSERT_OK(h_.Sync(w1_));
  v1::UploadArtifactHeader header;
  header.set_attempt(1);
  *header.mutable_file() = result.model().files(0);
  Effects effects;
  for (const char* id : {"final", "target-1", "target-2"}) {
    EXPECT_EQ(h_.job(name).state(), v1::RUNNING) << id;
    header.set_artifact(name + "/models/" + id);
    ASSERT_OK(h_.coordinator->ArtifactStored(header, "w1", h_.now, &effects));
  }
  const v1::Job& job = effects.records.at(name).job();
  EXPECT_EQ(job.state(), v1::SUCCEEDED);
  ASSERT_THAT(job.models(), SizeIs(3));
  EXPECT_EQ(job.models(0).name(), name + "/models/target-1");
  EXPECT_EQ(job.models(2).name(), name + "/models/final");
}

TEST_F(CoordinatorTest, ATargetsModelOutsideTheJobFailsIt) {
  const std::string name = RunningJob();
  v1::MemberStatus result = Result(name, 1);
  result.add_target_models()->set_name("jobs/other/models/target-1");
  w1_.members = {result, Status(name, 1, 1, kExited)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::FAILED);
}

TEST_F(CoordinatorTest, WorkerLostBeforeItsModelArrivedMeansRetry) {
  const std::string name = RunningJob();
  v1::MemberStatus result = Result(name, 1);
  result.mutable_model()->set_name(name + "/models/final");
  result.mutable_model()->add_files()->set_path("config.json");
  w1_.members = {result, Status(name, 1, 1, kExited)};
  ASSERT_OK(h_.Sync(w1_));
  h_.Advance(absl::Seconds(61));
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
}

TEST_F(CoordinatorTest, TimeLimitFailsTheJobOnceItsRanksEnded) {
  v1::JobSpec spec = TestSpec(2);
  spec.mutable_time_limit()->set_seconds(30);
  const std::string name = h_.Submit(spec);
  h_.Follow(w1_, kRunning);
  h_.Advance(absl::Seconds(29));
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(2));
  h_.Advance(absl::Seconds(2));
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(0));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  w1_.members = {Failed(name, 1, 0, v1::RANK_LOST, h_.now),
                 Failed(name, 1, 1, v1::RANK_LOST, h_.now)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::FAILED);
  EXPECT_EQ(h_.job(name).failure().failure_class(), v1::USER);
  EXPECT_EQ(h_.job(name).failure().message(), "time_limit of 30s exceeded");
}

TEST_F(CoordinatorTest, RequestIdIsIdempotentAlsoAfterARestart) {
  v1::JobSpec spec = TestSpec(2);
  (*spec.mutable_labels())["a"] = "1";
  (*spec.mutable_labels())["b"] = "2";
  Effects effects;
  ASSERT_OK_AND_ASSIGN(
      v1::Job job,
      h_.coordinator->Submit(PreparedTestJob(spec, "r1"), h_.now, &effects));
  h_.stored[job.name()] = effects.records.at(job.name());
  h_.Restart();
  Effects none;
  ASSERT_OK_AND_ASSIGN(
      v1::Job same,
      h_.coordinator->Submit(PreparedTestJob(spec, "r1"), h_.now, &none));
  EXPECT_EQ(same.name(), job.name());
  EXPECT_TRUE(none.records.empty());
  spec.set_priority(5);
  EXPECT_THAT(
      h_.coordinator->Submit(PreparedTestJob(spec, "r1"), h_.now, &none),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(CoordinatorTest, ProgramsTakeTheQueuesRole) {
  v1::JobSpec spec;
  spec.mutable_program()->set_entry("train.py");
  spec.mutable_program()->set_files("datasets/code");
  const auto submit = [&](bool administers) {
    PreparedJob job = PreparedTestJob(spec, "", "ann");
    job.set_administers(administers);
    Effects effects;
    return h_.coordinator->Submit(job, h_.now, &effects).status();
  };
  EXPECT_THAT(submit(false), StatusIs(absl::StatusCode::kPermissionDenied,
                                      HasSubstr("--programs user")));
  EXPECT_OK(submit(true));
  v1::UpdateQueueRequest update;
  update.mutable_queue()->set_name("queues/default");
  update.mutable_queue()->set_program_role(v1::ROLE_USER);
  update.mutable_update_mask()->add_paths("program_role");
  Effects effects;
  ASSERT_OK(h_.coordinator->UpdateQueue(update, &effects));
  EXPECT_OK(submit(false));
}

// What a worker says about programs decides who gets them.
TEST_F(CoordinatorTest, ProgramsGoToWorkersThatRunThem) {
  v1::JobSpec spec;
  spec.mutable_program()->set_entry("train.py");
  spec.mutable_program()->set_files("/code");
  CoordinatorHarness::Worker plain{"w1"}, able{"w2"};
  able.runs_programs = true;
  ASSERT_OK(h_.Sync(plain));
  const std::string name = h_.Submit(spec);
  h_.Schedule();
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  ASSERT_OK(h_.Sync(able));
  h_.Schedule();
  ASSERT_OK_AND_ASSIGN(const v1::SynchronizeResponse answer, h_.Sync(able));
  ASSERT_EQ(answer.desired_size(), 1);
  EXPECT_EQ(answer.desired(0).spec().program().entry(), "train.py");
}

TEST_F(CoordinatorTest, QueueHasALimit) {
  Coordinator::Options options;
  options.max_queued_jobs = 2;
  CoordinatorHarness h(options);
  h.Submit(1);
  h.Submit(1);
  Effects effects;
  EXPECT_THAT(
      h.coordinator->Submit(PreparedTestJob(TestSpec(1)), h.now, &effects),
      StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(CoordinatorTest, AnEndedJobIsQueuedAgainOnlyWhereANewOneMightBe) {
  Coordinator::Options options;
  options.max_queued_jobs = 2;
  CoordinatorHarness h(options);
  v1::ResumeJobRequest request;
  request.set_name(h.Submit(1));
  ASSERT_OK(h.Cancel(request.name()));
  h.Submit(1);
  h.Submit(1);
  Effects effects;
  EXPECT_THAT(h.coordinator->Resume(request, h.now, &effects),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace comera::server
