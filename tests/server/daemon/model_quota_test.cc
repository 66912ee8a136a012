// Checks how much of the server's disk the models of one user and of all may
// take, over real gRPC.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "comera/v1/access_service.pb.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/resource_names.h"
#include "tests/server/daemon/fake_disk_space.h"
#include "tests/server/daemon/quota_fixture.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

// A model's upload, by the worker of a job of alice's.
class ModelQuotaTest : public QuotaTest {
 protected:
  // The server uses the fake disk.
  ~ModelQuotaTest() override { StopServer(); }

  void BeginModels() {
    options_.disk = {100 * kMiB, 200 * kMiB, 0};
    options_.disk_space = &space_;
    Begin();
  }

  // The status of an upload of `data`; `between` runs after its first half has
  // been sent.
  grpc::Status UploadModel(const std::string& secret, const std::string& job,
                           const std::string& data,
                           const std::function<void()>& between) {
    auto context = As(secret);
    v1::UploadArtifactResponse response;
    auto writer = worker_stub_->UploadArtifact(context.get(), &response);
    v1::UploadArtifactRequest request;
    request.mutable_header()->set_artifact(ArtifactName(job.substr(5), "m"));
    request.mutable_header()->set_attempt(1);
    *request.mutable_header()->mutable_file() = Describe("model.bin", data);
    bool going = writer->Write(request);
    request.set_data(data.substr(0, data.size() / 2));
    going = going && writer->Write(request);
    between();
    request.set_data(data.substr(data.size() / 2));
    if (going) writer->Write(request);
    writer->WritesDone();
    return writer->Finish();
  }

  // The worker `w` begins alice's job.
  std::string RunJob() {
    worker_token_ = WorkerToken();
    std::string name;
    EXPECT_EQ(CreateAs(alice_, &name).error_code(), Code::OK);
    v1::SynchronizeRequest request;
    request.set_worker("w");
    request.set_incarnation("i1");
    request.set_host("host");
    v1::Slot* slot = request.add_slots();
    slot->set_device(v1::ResourceSpec::CPU);
    v1::SynchronizeResponse response;
    // The scheduler may pause after a pass that the machine held up.
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (response.desired_size() == 0 && absl::Now() < end) {
      EXPECT_TRUE(
          worker_stub_->Synchronize(As(worker_token_).get(), request, &response)
              .ok());
      request.set_seen_version(response.desired_version());
    }
    EXPECT_EQ(response.desired_size(), 1);
    return name;
  }

  std::string WorkerToken() {
    v1::CreateTokenRequest request;
    request.set_user("w");
    request.set_worker(true);
    request.set_worker_name("w");
    v1::CreateTokenResponse response;
    const grpc::Status status =
        access_->CreateToken(As(root_).get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.secret();
  }

  FakeDiskSpace space_;
  std::string worker_token_;
};

TEST_F(ModelQuotaTest, AModelHasItsUsersQuota) {
  quota().model_bytes = 1000;
  BeginModels();
  const std::string job = RunJob();
  grpc::Status status =
      UploadModel(worker_token_, job, std::string(1001, 'x'), [] {});
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("alice has 0 bytes of models; the limit for a user is "
                        "1000 (--user_model_bytes"));
  status = UploadModel(worker_token_, job, std::string(1000, 'x'), [] {});
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ModelQuotaTest, AllModelsHaveAQuota) {
  options_.host.model_quota_bytes = 1000;
  BeginModels();
  const std::string job = RunJob();
  const grpc::Status status =
      UploadModel(worker_token_, job, std::string(1001, 'x'), [] {});
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--model_quota_bytes"));
}

// The attack: an upload that began while there was room filled the disk.
TEST_F(ModelQuotaTest, AnUploadLeavesTheStoresReserve) {
  BeginModels();
  const std::string job = RunJob();
  const std::string data(4 * kMiB, 'x');
  space_.Set(203);
  grpc::Status status = UploadModel(worker_token_, job, data, [] {});
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("for the coordinator's store"));
  space_.Set(1000);
  const std::string uploads = options_.data_dir + "/uploads";
  status = UploadModel(worker_token_, job, data, [&] {
    // Once the first half has arrived, others fill the disk.
    EXPECT_TRUE(Await([&] {
      int64_t bytes = 0;
      for (const auto& file : std::filesystem::directory_iterator(uploads)) {
        // What is left of the first one may go just now.
        std::error_code gone;
        const auto size = file.file_size(gone);
        if (!gone) bytes += static_cast<int64_t>(size);
      }
      return bytes >= 2 * kMiB;
    }));
    space_.Set(201);
  });
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("for the coordinator's store"));
  // The coordinator takes changes all the while, and nothing is left.
  EXPECT_EQ(CreateAs(bob_).error_code(), Code::OK);
  EXPECT_TRUE(Await([&] { return std::filesystem::is_empty(uploads); }));
}

TEST_F(ModelQuotaTest, IdleModelUploadsEnd) {
  BeginModels();
  RunJob();
  auto context = As(worker_token_);
  v1::UploadArtifactResponse response;
  auto writer = worker_stub_->UploadArtifact(context.get(), &response);
  // It waits from the moment that it has reached the server.
  std::atomic<bool> done{false};
  std::thread later([&] {
    Await([&] {
      clock_.Advance(absl::Seconds(31));
      return done.load();
    });
  });
  const grpc::Status status = writer->Finish();
  done = true;
  later.join();
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("no data came for 30s"));
}

}  // namespace
}  // namespace comera::server
