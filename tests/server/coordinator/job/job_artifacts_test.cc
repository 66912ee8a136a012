// Tests which uploads, logs and removals a job accepts.
#include "server/coordinator/job/job_artifacts.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/job/job_retention.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class JobArtifactsTest : public ::testing::Test {
 protected:
  JobArtifactsTest() { parts_.AddWorker("w1"); }

  CoordinatorParts parts_;
};

TEST_F(JobArtifactsTest, OnlyTheCurrentAttemptUploads) {
  const JobEntry& entry = parts_.StartJob("a", "w1");
  v1::UploadArtifactHeader header;
  header.set_artifact("jobs/a/models/m");
  header.set_attempt(2);
  EXPECT_THAT(FindUploader(header, "w1", parts_.jobs),
              StatusIs(absl::StatusCode::kAborted));
  header.set_attempt(1);
  EXPECT_EQ(*FindUploader(header, "w1", parts_.jobs), &entry);
  header.set_artifact("jobs/b/models/m");
  EXPECT_THAT(FindUploader(header, "w1", parts_.jobs),
              StatusIs(absl::StatusCode::kNotFound));
  header.set_artifact("../m");
  EXPECT_THAT(FindUploader(header, "w1", parts_.jobs),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// The attack: another worker replaces the model of a running job.
TEST_F(JobArtifactsTest, OnlyTheWorkerOfMember0UploadsAndEachFileOnce) {
  parts_.AddWorker("w2");
  JobEntry& entry = parts_.StartJob("a", "w1");
  v1::UploadArtifactHeader header;
  header.set_artifact("jobs/a/models/m");
  header.set_attempt(1);
  header.mutable_file()->set_path("model.safetensors");
  header.mutable_file()->set_sha256("one");
  EXPECT_THAT(FindUploader(header, "w2", parts_.jobs),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_OK(FindUploader(header, "w1", parts_.jobs));
  entry.attempt().AddUpload(header.artifact(), header.file());
  // A lost reply costs nothing, but other contents are refused.
  EXPECT_OK(FindUploader(header, "w1", parts_.jobs));
  header.mutable_file()->set_sha256("two");
  EXPECT_THAT(FindUploader(header, "w1", parts_.jobs),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  Operation op(parts_.now, &parts_.effects);
  entry.End(v1::SUCCEEDED, "", &op);
  for (const char* contents : {"one", "two"}) {
    header.mutable_file()->set_sha256(contents);
    EXPECT_FALSE(FindUploader(header, "w1", parts_.jobs).ok()) << contents;
  }
}

TEST_F(JobArtifactsTest, AModelIsRemovedWhenItsJobHasEnded) {
  JobEntry& entry = parts_.AddJob("a");
  entry.mutable_job().add_models()->set_name("jobs/a/models/m");
  Operation op(parts_.now, &parts_.effects);
  EXPECT_THAT(RemoveModel("jobs/a/models/m", &parts_.jobs, &op),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  entry.End(v1::SUCCEEDED, "", &op);
  EXPECT_OK(RemoveModel("jobs/a/models/m", &parts_.jobs, &op));
  EXPECT_THAT(entry.job().models(), SizeIs(0));
  EXPECT_THAT(RemoveModel("jobs/a/models/m", &parts_.jobs, &op),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(JobArtifactsTest, LogsAreThoseOfMembersThatTheJobHasOrHad) {
  parts_.StartJob("a", "w1", 2);
  v1::LogChunk chunk;
  chunk.set_job("jobs/a");
  chunk.set_attempt(1);
  chunk.set_rank(1);
  EXPECT_TRUE(IsOwnLog(chunk, "w1", parts_.now, parts_.jobs));
  EXPECT_FALSE(IsOwnLog(chunk, "w2", parts_.now, parts_.jobs));
  chunk.set_rank(2);
  EXPECT_FALSE(IsOwnLog(chunk, "w1", parts_.now, parts_.jobs));
  chunk.set_rank(-1);
  EXPECT_FALSE(IsOwnLog(chunk, "w1", parts_.now, parts_.jobs));
  chunk.set_rank(0);
  chunk.set_attempt(2);
  EXPECT_FALSE(IsOwnLog(chunk, "w1", parts_.now, parts_.jobs));
}

// The attack: a worker writes into the logs of attempts that ran elsewhere, or
// of jobs that ended long ago.
TEST_F(JobArtifactsTest, LateLogsComeFromTheirOwnWorkerAndSoon) {
  JobEntry& entry = parts_.StartJob("a", "w1", 1);
  v1::LogChunk chunk;
  chunk.set_job("jobs/a");
  chunk.set_attempt(1);
  entry.attempt().End(parts_.now);
  EXPECT_TRUE(IsOwnLog(chunk, "w1", parts_.now, parts_.jobs));
  EXPECT_FALSE(IsOwnLog(chunk, "w2", parts_.now, parts_.jobs));
  // Another worker runs the next attempt.
  entry.attempt().Begin(parts_.now);
  entry.attempt().AddMember("w2", "i1", 0, parts_.now);
  EXPECT_TRUE(IsOwnLog(chunk, "w1", parts_.now, parts_.jobs));
  EXPECT_FALSE(IsOwnLog(chunk, "w2", parts_.now, parts_.jobs));
  chunk.set_attempt(2);
  EXPECT_FALSE(IsOwnLog(chunk, "w1", parts_.now, parts_.jobs));
  EXPECT_TRUE(IsOwnLog(chunk, "w2", parts_.now, parts_.jobs));
  entry.attempt().End(parts_.now);
  for (const int attempt : {1, 2}) {
    chunk.set_attempt(attempt);
    const std::string own = attempt == 1 ? "w1" : "w2";
    EXPECT_TRUE(
        IsOwnLog(chunk, own, parts_.now + Attempt::kLateLogs, parts_.jobs));
    EXPECT_FALSE(IsOwnLog(chunk, own,
                          parts_.now + Attempt::kLateLogs + absl::Seconds(1),
                          parts_.jobs));
  }
}

TEST_F(JobArtifactsTest, OldFinishedJobsExpireUnlessAnotherContinuesThem) {
  JobEntry& entry = parts_.AddJob("a");
  Operation op(parts_.now, &parts_.effects);
  entry.End(v1::SUCCEEDED, "", &op);
  const absl::Time later = parts_.now + absl::Seconds(1);
  EXPECT_THAT(FindExpiredJobs(parts_.jobs, parts_.now, 10), IsEmpty());
  EXPECT_THAT(FindExpiredJobs(parts_.jobs, later, 10), ElementsAre("jobs/a"));
  EXPECT_THAT(FindExpiredJobs(parts_.jobs, later, 0), IsEmpty());
  // A model that is pinned, or has an alias, keeps its job.
  v1::Artifact& model = *entry.mutable_job().add_models();
  model.set_pinned(true);
  EXPECT_THAT(FindExpiredJobs(parts_.jobs, later, 10), IsEmpty());
  model.set_pinned(false);
  model.add_aliases("models/m@production");
  EXPECT_THAT(FindExpiredJobs(parts_.jobs, later, 10), IsEmpty());
  EXPECT_FALSE(CheckMayBeForgotten(entry, parts_.jobs).ok());
  model.clear_aliases();
  EXPECT_OK(CheckMayBeForgotten(entry, parts_.jobs));
  parts_.AddJob("b")
      .mutable_job()
      .mutable_spec()
      ->mutable_start_from()
      ->set_checkpoint("jobs/a/checkpoints/7");
  EXPECT_THAT(FindExpiredJobs(parts_.jobs, later, 10), IsEmpty());
}

}  // namespace
}  // namespace comera::server
