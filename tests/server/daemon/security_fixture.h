#ifndef COMERA_TESTS_SERVER_DAEMON_SECURITY_FIXTURE_H_
#define COMERA_TESTS_SERVER_DAEMON_SECURITY_FIXTURE_H_

#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comera/v1/access_service.grpc.pb.h"
#include "comera/v1/dataset_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "server/auth/token_record.pb.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {

// A server on loopback, and calls to it with the tokens of different callers.
class SecurityTest : public ServerFixture {
 protected:
  using Code = grpc::StatusCode;

  SecurityTest() : access_(v1::AccessService::NewStub(channel_)) {}

  void Restart() {
    access_.reset();
    RestartServer();
    access_ = v1::AccessService::NewStub(channel_);
  }

  // Makes a token with `by`'s; remembers nothing.
  std::string Token(const std::string& by, const std::string& user,
                    v1::Role role,
                    const std::map<std::string, v1::Role>& queues = {},
                    bool worker = false) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_role(role);
    request.set_worker(worker);
    for (const auto& [queue, one] : queues) {
      (*request.mutable_queue_roles())[queue] = one;
    }
    v1::CreateTokenResponse response;
    const grpc::Status status =
        access_->CreateToken(As(by).get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.secret();
  }

  // Makes a worker's token one that an earlier version stored, which names no
  // worker; restarts the server.
  void Unbind(const std::string& secret) {
    const std::string id = secret.substr(7, 12);
    std::promise<StoreBatch> found;
    server_->host().Read([&](JobStore* store) {
      StoreBatch batch;
      const auto documents = store->LoadDocuments(TokenStore::kKind);
      for (const Document& one : *documents) {
        if (one.name == id) batch.documents.push_back(one);
      }
      found.set_value(std::move(batch));
    });
    StoreBatch batch = found.get_future().get();
    ASSERT_THAT(batch.documents, ::testing::SizeIs(1));
    TokenRecord record;
    ASSERT_TRUE(record.ParseFromString(*batch.documents[0].body));
    record.mutable_token()->clear_worker_name();
    batch.documents[0].body = record.SerializeAsString();
    std::promise<absl::Status> written;
    server_->host().Write(std::move(batch), [&](const absl::Status& status) {
      written.set_value(status);
    });
    ASSERT_OK(written.get_future().get());
    Restart();
  }

  // A worker's report, under a name in the call (empty: none) and in the
  // report.
  Code SyncAs(const std::string& secret, const std::string& caller,
              const std::string& worker, std::string* message = nullptr) {
    v1::SynchronizeRequest request;
    request.set_worker(worker);
    request.set_incarnation("i1");
    request.add_slots()->set_device(v1::ResourceSpec::CPU);
    v1::SynchronizeResponse response;
    const auto context = As(secret);
    if (!caller.empty()) context->AddMetadata(kWorkerMetadata, caller);
    const grpc::Status status =
        worker_stub_->Synchronize(context.get(), request, &response);
    if (message != nullptr) *message = status.error_message();
    return status.error_code();
  }

  // How a call to upload a model of the job, and one to fetch a blob, end.
  Code UploadAs(const std::string& secret, const std::string& job) {
    const auto context = As(secret);
    v1::UploadArtifactResponse response;
    const auto writer = worker_stub_->UploadArtifact(context.get(), &response);
    v1::UploadArtifactRequest request;
    request.mutable_header()->set_artifact(job + "/models/final");
    request.mutable_header()->set_attempt(1);
    *request.mutable_header()->mutable_file() =
        Describe("model.safetensors", secret);
    writer->Write(request);
    request.set_data(secret);
    writer->Write(request);
    writer->WritesDone();
    return writer->Finish().error_code();
  }
  Code FetchAs(const std::string& secret, const std::string& sha256) {
    const auto datasets = v1::DatasetService::NewStub(channel_);
    v1::DownloadBlobRequest blob;
    blob.set_sha256(sha256);
    const auto context = As(secret);
    const auto reader = datasets->DownloadBlob(context.get(), blob);
    v1::DownloadBlobResponse part;
    while (reader->Read(&part)) {
    }
    return reader->Finish().error_code();
  }

  Code CreateAs(const std::string& secret, const std::string& queue,
                std::string* name = nullptr) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = TestSpec(1);
    request.mutable_spec()->set_queue(queue);
    v1::Job job;
    const Code code =
        training_->CreateJob(As(secret).get(), request, &job).error_code();
    if (name != nullptr) *name = job.name();
    return code;
  }

  Code CancelAs(const std::string& secret, const std::string& name) {
    v1::CancelJobRequest request;
    request.set_name(name);
    v1::Job job;
    return training_->CancelJob(As(secret).get(), request, &job).error_code();
  }

  Code GetAs(const std::string& secret, const std::string& name) {
    v1::GetJobRequest request;
    request.set_name(name);
    v1::Job job;
    return training_->GetJob(As(secret).get(), request, &job).error_code();
  }

  Code SeriesAs(const std::string& secret, const std::string& name) {
    v1::ReadSeriesRequest request;
    request.set_name(name);
    request.set_max_points(10);
    v1::JobSeries series;
    return training_->ReadSeries(As(secret).get(), request, &series)
        .error_code();
  }

  size_t CountAs(const std::string& secret) {
    v1::ListJobsResponse response;
    EXPECT_TRUE(training_->ListJobs(As(secret).get(), {}, &response).ok());
    return response.jobs_size();
  }

  std::vector<v1::AuditEntry> Audit(const std::string& secret,
                                    v1::ListAuditEntriesRequest request = {}) {
    v1::ListAuditEntriesResponse response;
    const grpc::Status status =
        access_->ListAuditEntries(As(secret).get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return {response.entries().begin(), response.entries().end()};
  }

  std::unique_ptr<v1::AccessService::Stub> access_;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_DAEMON_SECURITY_FIXTURE_H_
