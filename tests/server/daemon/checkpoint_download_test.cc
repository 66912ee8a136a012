// The coordinator gives a training state to the workers that need it, over
// real gRPC.
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "comera/v1/access_service.grpc.pb.h"
#include "gtest/gtest.h"
#include "proto/resource_names.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using Code = grpc::StatusCode;

// More than the connection of a reader who takes nothing holds.
const std::string kState(size_t{4} << 20, 's');
constexpr int kSteps = 100;

class CheckpointDownloadTest : public ServerFixture {
 protected:
  // A worker with one slot, or none, and its token.
  struct Member {
    std::string name;
    std::string secret;
    int slots = 0;
  };

  CheckpointDownloadTest() {
    root_ = Token("", "root", /*worker=*/false);
    first_.secret = Token(root_, first_.name, /*worker=*/true);
    second_.secret = Token(root_, second_.name, /*worker=*/true);
  }

  // The secret of a worker's token, or of an administrator's.
  std::string Token(const std::string& by, const std::string& user,
                    bool worker) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_worker(worker);
    if (!worker) request.set_role(v1::ROLE_ADMIN);
    v1::CreateTokenResponse response;
    const grpc::Status status =
        v1::AccessService::NewStub(channel_)->CreateToken(As(by).get(), request,
                                                          &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.secret();
  }

  std::string CreateJob(const std::string& start_from = "") {
    v1::CreateJobRequest request;
    *request.mutable_spec() = TestSpec(1);
    if (!start_from.empty()) {
      v1::JobSpec& spec = *request.mutable_spec();
      spec.mutable_start_from()->set_checkpoint(start_from);
      // It goes on with the same stage.
      spec.mutable_objective()->mutable_early()->set_steps(2 * kSteps);
    }
    v1::Job job;
    const grpc::Status status =
        training_->CreateJob(As(root_).get(), request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.name();
  }

  // A report of the worker, with this member or none.
  v1::SynchronizeResponse Report(const Member& worker,
                                 const v1::MemberStatus* member = nullptr) {
    v1::SynchronizeRequest request;
    request.set_worker(worker.name);
    request.set_incarnation("i1");
    for (int i = 0; i < worker.slots; ++i) {
      request.add_slots()->set_device(v1::ResourceSpec::CPU);
    }
    if (member != nullptr) *request.add_members() = *member;
    v1::SynchronizeResponse response;
    const grpc::Status status =
        worker_stub_->Synchronize(As(worker.secret).get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  void AwaitMember(const Member& worker) {
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (Report(worker).desired_size() == 0) {
      ASSERT_LT(absl::Now(), end) << "nothing is placed on " << worker.name;
      clock_.Advance(absl::Milliseconds(100));
    }
  }

  // The worker trains the early stage to its end: the job's checkpoint.
  std::string LeaveState(const Member& worker, const std::string& job) {
    v1::MemberStatus member;
    member.set_job(job);
    member.set_attempt(1);
    member.set_phase(v1::MemberStatus::EXITED);
    member.mutable_result()->set_outcome(v1::COMPLETED);
    member.mutable_result()->set_step(kSteps);
    v1::Artifact& artifact = *member.add_target_models();
    artifact.set_name(job + "/models/" + kEarlyStageArtifact);
    *artifact.add_files() = Describe(kTrainingStateFile, kState);
    const auto context = As(worker.secret);
    v1::UploadArtifactResponse response;
    const auto writer = worker_stub_->UploadArtifact(context.get(), &response);
    v1::UploadArtifactRequest request;
    request.mutable_header()->set_artifact(artifact.name());
    request.mutable_header()->set_attempt(1);
    *request.mutable_header()->mutable_file() = artifact.files(0);
    writer->Write(request);
    for (size_t at = 0; at < kState.size(); at += 1 << 20) {
      request.set_data(kState.substr(at, 1 << 20));
      writer->Write(request);
    }
    writer->WritesDone();
    EXPECT_TRUE(writer->Finish().ok());
    Report(worker, &member);
    Report(worker);
    return job + "/checkpoints/100";
  }

  // How a download of the state ends; `data`: what came.
  Code Fetch(const std::string& secret, const std::string& checkpoint,
             std::string* data = nullptr) {
    v1::DownloadArtifactRequest request;
    request.set_name(checkpoint);
    request.set_path(kTrainingStateFile);
    const auto context = As(secret);
    const auto reader = training_->DownloadArtifact(context.get(), request);
    v1::DownloadArtifactResponse part;
    while (reader->Read(&part)) {
      if (data != nullptr) data->append(part.data());
    }
    return reader->Finish().error_code();
  }

  std::string root_;
  Member first_{"w1", "", 0}, second_{"w2", "", 0};
};

// The attack: a worker's token fetches what others have trained.
TEST_F(CheckpointDownloadTest, OnlyTheWorkerOfAJobThatNeedsItGetsAState) {
  first_.slots = 1;
  const std::string job = CreateJob();
  Report(second_);
  AwaitMember(first_);
  // There is no state yet, which nobody else is told.
  EXPECT_EQ(Fetch(first_.secret, job + "/checkpoints/100"), Code::NOT_FOUND);
  EXPECT_EQ(Fetch(second_.secret, job + "/checkpoints/100"),
            Code::PERMISSION_DENIED);
  const std::string checkpoint = LeaveState(first_, job);
  std::string data;
  ASSERT_EQ(Fetch(root_, checkpoint, &data), Code::OK);
  EXPECT_TRUE(data == kState);
  // The job has ended, so its own worker needs it no more either.
  EXPECT_EQ(Fetch(first_.secret, checkpoint), Code::PERMISSION_DENIED);

  // Another one begins with it: first it waits, then the second worker has it.
  first_.slots = 0;
  Report(first_);
  CreateJob(checkpoint);
  EXPECT_EQ(Fetch(second_.secret, checkpoint), Code::PERMISSION_DENIED);
  second_.slots = 1;
  AwaitMember(second_);
  data.clear();
  EXPECT_EQ(Fetch(second_.secret, checkpoint, &data), Code::OK);
  EXPECT_TRUE(data == kState);
  EXPECT_EQ(Fetch(first_.secret, checkpoint), Code::PERMISSION_DENIED);
  EXPECT_EQ(Fetch(second_.secret, job + "/checkpoints/99"),
            Code::PERMISSION_DENIED);
}

// The attack: downloads that nobody reads hold a piece of their file each.
TEST_F(CheckpointDownloadTest, StalledDownloadsAreFewAndEnd) {
  options_.security.limits.max_downloads = 1;
  // The clock moves only while the test waits.
  options_.security.limits.request_burst = 1e9;
  RestartServer();
  first_.slots = 1;
  const std::string job = CreateJob();
  AwaitMember(first_);
  const std::string checkpoint = LeaveState(first_, job);
  grpc::ChannelArguments arguments;
  // What is not read stays with the server, however fast the line is.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto slow = v1::TrainingService::NewStub(grpc::CreateCustomChannel(
      server_->address(), grpc::InsecureChannelCredentials(), arguments));
  v1::DownloadArtifactRequest request;
  request.set_name(checkpoint);
  request.set_path(kTrainingStateFile);
  const auto context = As(root_);
  const auto stalled = slow->DownloadArtifact(context.get(), request);
  v1::DownloadArtifactResponse part;
  ASSERT_TRUE(stalled->Read(&part));
  EXPECT_EQ(Fetch(root_, checkpoint), Code::RESOURCE_EXHAUSTED);
  // A write may begin its minute later than the clock moves.
  const absl::Time end = absl::Now() + absl::Seconds(30);
  Code code = Code::RESOURCE_EXHAUSTED;
  while (code == Code::RESOURCE_EXHAUSTED && absl::Now() < end) {
    clock_.Advance(absl::Seconds(61));
    code = Fetch(root_, checkpoint);
  }
  EXPECT_EQ(code, Code::OK);
  while (stalled->Read(&part)) {
  }
  const grpc::Status status = stalled->Finish();
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE) << status.error_message();
}

}  // namespace
}  // namespace comera::server
