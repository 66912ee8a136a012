#ifndef COMERA_TESTS_SERVER_DAEMON_QUOTA_FIXTURE_H_
#define COMERA_TESTS_SERVER_DAEMON_QUOTA_FIXTURE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "comera/v1/access_service.grpc.pb.h"
#include "comera/v1/dataset_service.grpc.pb.h"
#include "comera/v1/sweep_service.grpc.pb.h"
#include "common/files.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/server/daemon/server_fixture.h"
#include "tests/server/test_spec.h"

namespace comera::server {

// A server that asks for tokens, and calls to it by several users.
class QuotaTest : public ServerFixture {
 protected:
  using Code = grpc::StatusCode;

  QuotaTest() {
    options_.datasets.blobs.min_free_bytes = 0;
    options_.datasets.idle_check = absl::Milliseconds(5);
    options_.host.idle_check = absl::Milliseconds(5);
    // The clock stands still while a test asks again and again.
    options_.security.limits.request_burst = 1e9;
  }

  UserQuota& quota() { return options_.security.limits.quota; }

  // With the options, and with users.
  void Begin() {
    RestartServer();
    access_ = v1::AccessService::NewStub(channel_);
    sweeps_ = v1::SweepService::NewStub(channel_);
    datasets_ = v1::DatasetService::NewStub(channel_);
    root_ = Token("", "root", v1::ROLE_ADMIN);
    alice_ = Token(root_, "alice", v1::ROLE_USER);
    bob_ = Token(root_, "bob", v1::ROLE_USER);
    viewer_ = Token(root_, "vera", v1::ROLE_VIEWER);
  }

  std::string Token(const std::string& by, const std::string& user,
                    v1::Role role, bool worker = false) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_role(role);
    request.set_worker(worker);
    v1::CreateTokenResponse response;
    const grpc::Status status =
        access_->CreateToken(As(by).get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.secret();
  }

  grpc::Status CreateAs(const std::string& secret, std::string* name = nullptr,
                        const v1::JobSpec& spec = TestSpec(1)) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    v1::Job job;
    const grpc::Status status =
        training_->CreateJob(As(secret).get(), request, &job);
    if (name != nullptr) *name = job.name();
    return status;
  }

  void CancelAs(const std::string& secret, const std::string& name) {
    v1::CancelJobRequest request;
    request.set_name(name);
    v1::Job job;
    EXPECT_TRUE(training_->CancelJob(As(secret).get(), request, &job).ok());
  }

  void DeleteAs(const std::string& secret, const std::string& name) {
    v1::DeleteJobRequest request;
    request.set_name(name);
    v1::DeleteJobResponse response;
    EXPECT_TRUE(
        training_->DeleteJob(As(secret).get(), request, &response).ok());
  }

  std::vector<v1::Job> Jobs() {
    v1::ListJobsRequest request;
    request.set_page_size(1000);
    v1::ListJobsResponse response;
    EXPECT_TRUE(training_->ListJobs(As(root_).get(), request, &response).ok());
    return {response.jobs().begin(), response.jobs().end()};
  }

  grpc::Status SweepAs(const std::string& secret, const v1::SweepSpec& spec,
                       v1::Sweep* sweep) {
    v1::CreateSweepRequest request;
    *request.mutable_spec() = spec;
    return sweeps_->CreateSweep(As(secret).get(), request, sweep);
  }

  v1::Sweep GetSweep(const std::string& name) {
    v1::GetSweepRequest request;
    request.set_name(name);
    v1::Sweep sweep;
    EXPECT_TRUE(sweeps_->GetSweep(As(root_).get(), request, &sweep).ok());
    return sweep;
  }

  // The entries of what a sweep did.
  std::vector<v1::AuditEntry> Audit(const std::string& method,
                                    const std::string& message) {
    v1::ListAuditEntriesRequest request;
    request.set_page_size(1000);
    v1::ListAuditEntriesResponse response;
    EXPECT_TRUE(
        access_->ListAuditEntries(As(root_).get(), request, &response).ok());
    std::vector<v1::AuditEntry> found;
    for (const v1::AuditEntry& entry : response.entries()) {
      if (entry.method() == method && entry.message() == message) {
        found.push_back(entry);
      }
    }
    return found;
  }

  using Upload = std::unique_ptr<grpc::ClientWriter<v1::UploadBlobRequest>>;
  struct OpenUpload {
    std::unique_ptr<grpc::ClientContext> context;
    v1::UploadBlobResponse response;
    Upload writer;
  };

  // Announces the blob, and sends the first bytes of it.
  std::unique_ptr<OpenUpload> Announce(const std::string& secret,
                                       const std::string& data,
                                       size_t bytes = 0) {
    auto upload = std::make_unique<OpenUpload>();
    upload->context = As(secret);
    upload->writer =
        datasets_->UploadBlob(upload->context.get(), &upload->response);
    v1::UploadBlobRequest request;
    request.mutable_header()->set_sha256(Sha256Hex(data));
    request.mutable_header()->set_size_bytes(static_cast<int64_t>(data.size()));
    upload->writer->Write(request);
    if (bytes > 0) {
      request.set_data(data.substr(0, bytes));
      upload->writer->Write(request);
    }
    return upload;
  }

  grpc::Status UploadAs(const std::string& secret, const std::string& data) {
    auto upload = Announce(secret, data, data.size());
    upload->writer->WritesDone();
    return upload->writer->Finish();
  }

  grpc::Status DatasetAs(const std::string& secret, const std::string& id,
                         const std::string& data) {
    v1::CreateDatasetRequest request;
    request.set_dataset_id(id);
    v1::DatasetFile& file = *request.add_files();
    file.set_path("a.txt");
    file.set_size_bytes(static_cast<int64_t>(data.size()));
    file.set_sha256(Sha256Hex(data));
    v1::Dataset dataset;
    return datasets_->CreateDataset(As(secret).get(), request, &dataset);
  }

  // Asks the server until the condition holds, or for a minute.
  template <typename Condition>
  bool Await(const Condition& condition) {
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (absl::Now() < end) {
      if (condition()) return true;
      v1::WhoAmIResponse who;
      access_->WhoAmI(As(root_).get(), {}, &who);
    }
    return condition();
  }

  // How many files there are of blobs.
  int64_t Blobs() {
    int64_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             options_.data_dir + "/blobs")) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }

  // How many bytes of the blob have arrived.
  int64_t Arrived(const std::string& data) {
    v1::QueryBlobsRequest request;
    request.add_sha256(Sha256Hex(data));
    v1::QueryBlobsResponse response;
    EXPECT_TRUE(
        datasets_->QueryBlobs(As(root_).get(), request, &response).ok());
    return response.blobs(0).offset();
  }

  std::unique_ptr<v1::AccessService::Stub> access_;
  std::unique_ptr<v1::SweepService::Stub> sweeps_;
  std::unique_ptr<v1::DatasetService::Stub> datasets_;
  std::string root_, alice_, bob_, viewer_;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_DAEMON_QUOTA_FIXTURE_H_
