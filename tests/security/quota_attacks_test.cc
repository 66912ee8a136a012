// Attacks on the coordinator's memory and queue with a user's and a viewer's
// token, against a real process: what they may use stays bounded.
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "comera/v1/access_service.grpc.pb.h"
#include "comera/v1/dataset_service.grpc.pb.h"
#include "comera/v1/sweep_service.grpc.pb.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"
#include "tests/server/test_spec.h"

namespace comera::e2e {
namespace {

using ::testing::HasSubstr;
using Code = grpc::StatusCode;

constexpr absl::Duration kBound = absl::Seconds(60);

class QuotaAttacksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_OK(MakeDirectories(folder_));
    server_ = std::make_unique<Process>(
        std::vector<std::string>{
            Binary("server/comera-server"), "--listen=127.0.0.1:0",
            "--http_listen=none", absl::StrCat("--data_dir=", folder_, "/data"),
            absl::StrCat("--port_file=", folder_, "/port"),
            absl::StrCat("--init_admin_token_file=", folder_, "/admin.token"),
            "--user_queued_jobs=100", "--user_jobs=120", "--user_job_bytes=4Mi",
            "--user_dataset_bytes=1Mi", "--user_uploads=2"},
        folder_ + "/server.log");
    ASSERT_TRUE(WaitForFile(folder_, "port", kBound));
    ASSERT_OK_AND_ASSIGN(std::string address, ReadFile(folder_ + "/port"));
    channel_ =
        grpc::CreateChannel(std::string(absl::StripSuffix(address, "\n")),
                            grpc::InsecureChannelCredentials());
    training_ = v1::TrainingService::NewStub(channel_);
    sweeps_ = v1::SweepService::NewStub(channel_);
    access_ = v1::AccessService::NewStub(channel_);
    ASSERT_OK_AND_ASSIGN(admin_, ReadFile(folder_ + "/admin.token"));
    admin_ = std::string(absl::StripSuffix(admin_, "\n"));
    user_ = Token("mallory", v1::ROLE_USER);
    viewer_ = Token("vera", v1::ROLE_VIEWER);
    other_ = Token("alice", v1::ROLE_USER);
  }

  static std::unique_ptr<grpc::ClientContext> As(const std::string& secret) {
    auto context = std::make_unique<grpc::ClientContext>();
    context->AddMetadata("authorization", "Bearer " + secret);
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::seconds(60));
    return context;
  }

  std::string Token(const std::string& user, v1::Role role) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_role(role);
    v1::CreateTokenResponse response;
    const grpc::Status status =
        access_->CreateToken(As(admin_).get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.secret();
  }

  // The processors' time that the server has used, which does not grow where
  // others use them too.
  absl::Duration Used() const {
    const std::string stat =
        ReadFile(absl::StrCat("/proc/", server_->pid(), "/stat")).value_or("");
    // Behind the name, in parentheses: eleven other fields, then the times.
    std::istringstream fields(stat.substr(stat.rfind(')') + 1));
    std::string passed;
    for (int i = 0; i < 11; ++i) fields >> passed;
    int64_t user = 0, system = 0;
    EXPECT_TRUE(fields >> user >> system) << stat;
    return absl::Seconds(user + system) / sysconf(_SC_CLK_TCK);
  }

  // The most memory that the server has had, in MiB.
  int64_t PeakMebibytes() const {
    std::ifstream file(absl::StrCat("/proc/", server_->pid(), "/status"));
    std::string word;
    while (file >> word) {
      if (word != "VmHWM:") continue;
      int64_t kib = 0;
      file >> kib;
      return kib >> 10;
    }
    return -1;
  }

  grpc::Status SweepAs(const std::string& secret, const v1::SweepSpec& spec,
                       v1::Sweep* sweep) {
    v1::CreateSweepRequest request;
    *request.mutable_spec() = spec;
    return sweeps_->CreateSweep(As(secret).get(), request, sweep);
  }

  Code CreateAs(const std::string& secret) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = server::TestSpec(1);
    v1::Job job;
    return training_->CreateJob(As(secret).get(), request, &job).error_code();
  }

  int CountJobs() {
    v1::ListJobsResponse response;
    EXPECT_TRUE(training_->ListJobs(As(admin_).get(), {}, &response).ok());
    return response.total_size();
  }

  std::string folder_;
  std::unique_ptr<Process> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::TrainingService::Stub> training_;
  std::unique_ptr<v1::SweepService::Stub> sweeps_;
  std::unique_ptr<v1::AccessService::Stub> access_;
  std::string admin_, user_, viewer_, other_;
};

v1::SweepSpec Seeds(int count) {
  v1::SweepSpec spec;
  *spec.mutable_job() = server::TestSpec(1);
  for (int seed = 1; seed <= count; ++seed) {
    spec.mutable_grid()->add_seeds(seed);
  }
  return spec;
}

TEST_F(QuotaAttacksTest, MemoryAndQueueStayBounded) {
  const int64_t before = PeakMebibytes();
  ASSERT_GT(before, 0);

  // One value of nearly four megabytes, times 512 seeds.
  v1::SweepSpec value = Seeds(512);
  v1::FieldValues& axis = *value.mutable_grid()->add_fields();
  axis.set_path("labels.note");
  axis.add_values(std::string(3900000, 'x'));
  v1::Sweep sweep;
  absl::Duration begun = Used();
  EXPECT_EQ(SweepAs(viewer_, value, &sweep).error_code(),
            Code::PERMISSION_DENIED);
  const absl::Duration viewers = Used() - begun;
  begun = Used();
  EXPECT_EQ(SweepAs(user_, value, &sweep).error_code(), Code::INVALID_ARGUMENT);
  const absl::Duration users = Used() - begun;

  // The same below every limit on the request alone.
  value.mutable_grid()->clear_fields();
  for (int i = 0; i < 16; ++i) {
    v1::FieldValues& large = *value.mutable_grid()->add_fields();
    large.set_path(absl::StrCat("labels.k", i));
    large.add_values(std::string(4000, 'x'));
  }
  grpc::Status status = SweepAs(user_, value, &sweep);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("of at most 16 MiB"));
  const int64_t refused = PeakMebibytes();
  std::cout << "viewer_ms=" << absl::ToDoubleMilliseconds(viewers)
            << " user_ms=" << absl::ToDoubleMilliseconds(users)
            << " grew_mib=" << refused - before << "\n";
  EXPECT_LT(viewers, absl::Seconds(2));
  EXPECT_LT(users, absl::Seconds(2));
  EXPECT_LT(refused - before, 100);

  // A sweep of 512 runs is accepted, and queues what its owner may.
  ASSERT_TRUE(SweepAs(user_, Seeds(512), &sweep).ok());
  absl::Time begin = absl::Now();
  while (CountJobs() < 100 && absl::Now() - begin < kBound) {
  }
  EXPECT_EQ(CountJobs(), 100);
  EXPECT_EQ(CreateAs(user_), Code::RESOURCE_EXHAUSTED);
  EXPECT_EQ(CreateAs(other_), Code::OK);

  // Cancelled jobs are still kept, so they still count.
  v1::CancelSweepRequest cancel;
  cancel.set_name(sweep.name());
  ASSERT_TRUE(sweeps_->CancelSweep(As(user_).get(), cancel, &sweep).ok());
  int more = 0;
  begin = absl::Now();
  v1::CreateJobRequest request;
  *request.mutable_spec() = server::TestSpec(1);
  while (absl::Now() - begin < kBound) {
    v1::Job job;
    status = training_->CreateJob(As(user_).get(), request, &job);
    if (status.ok()) {
      ++more;
    } else if (status.error_message().find("--user_jobs") !=
               std::string::npos) {
      break;
    }
  }
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("mallory has 120 jobs; the limit for a user is 120"));
  EXPECT_EQ(more, 20);
  EXPECT_EQ(CreateAs(other_), Code::OK);
}

TEST_F(QuotaAttacksTest, IdleUploadsHoldNobodyUp) {
  const auto datasets = v1::DatasetService::NewStub(channel_);
  // Each announces all that the user may have, and sends nothing.
  struct Upload {
    std::unique_ptr<grpc::ClientContext> context;
    v1::UploadBlobResponse response;
    std::unique_ptr<grpc::ClientWriter<v1::UploadBlobRequest>> writer;
  };
  std::vector<std::unique_ptr<Upload>> uploads;
  const auto announce = [&](const std::string& secret, const std::string& data,
                            bool send) {
    auto upload = std::make_unique<Upload>();
    upload->context = As(secret);
    upload->writer =
        datasets->UploadBlob(upload->context.get(), &upload->response);
    v1::UploadBlobRequest request;
    request.mutable_header()->set_sha256(Sha256Hex(data));
    request.mutable_header()->set_size_bytes(static_cast<int64_t>(data.size()));
    upload->writer->Write(request);
    if (send) {
      request.set_data(data);
      upload->writer->Write(request);
      upload->writer->WritesDone();
    }
    uploads.push_back(std::move(upload));
  };
  announce(user_, std::string(1 << 20, 'a'), false);
  announce(user_, std::string(1 << 20, 'b'), false);
  announce(other_, std::string(1 << 20, 'c'), true);
  EXPECT_TRUE(uploads[2]->writer->Finish().ok());
  const absl::Time begin = absl::Now();
  const grpc::Status status = uploads[0]->writer->Finish();
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("no data came for 30s"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(45));
  EXPECT_EQ(uploads[1]->writer->Finish().error_code(), Code::UNAVAILABLE);
}

}  // namespace
}  // namespace comera::e2e
