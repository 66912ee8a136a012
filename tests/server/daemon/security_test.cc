// Tokens, roles, limits, TLS and the audit log over real gRPC.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <set>
#include <sstream>

#include "absl/time/clock.h"
#include "comera/rpc/error_details.pb.h"
#include "comera/v1/access_service.grpc.pb.h"
#include "comera/v1/dataset_service.grpc.pb.h"
#include "comera/v1/queue_service.grpc.pb.h"
#include "comera/v1/sweep_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "common/rpc_channel.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/auth/token_record.pb.h"
#include "tests/security/certificates.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Code = grpc::StatusCode;

class SecurityTest : public ServerFixture {
 protected:
  SecurityTest() : access_(v1::AccessService::NewStub(channel_)) {}

  void Restart() {
    access_.reset();
    RestartServer();
    access_ = v1::AccessService::NewStub(channel_);
  }

  static std::unique_ptr<grpc::ClientContext> As(const std::string& secret) {
    auto context = Context();
    if (!secret.empty()) {
      context->AddMetadata("authorization", "Bearer " + secret);
    }
    return context;
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
    ASSERT_THAT(batch.documents, SizeIs(1));
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

  // A worker's report, under a name in the call (empty: none) and in the report.
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

TEST_F(SecurityTest, FirstTokenClosesTheServer) {
  v1::WhoAmIResponse who;
  ASSERT_TRUE(access_->WhoAmI(As("").get(), {}, &who).ok());
  EXPECT_TRUE(who.open());
  const v1::Job before = Create(TestSpec(1));
  EXPECT_EQ(before.user(), "");

  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  EXPECT_EQ(GetAs("", before.name()), Code::UNAUTHENTICATED);
  EXPECT_EQ(GetAs(root + "0", before.name()), Code::UNAUTHENTICATED);
  EXPECT_EQ(GetAs(root, before.name()), Code::OK);
  v1::CreateTokenRequest more;
  more.set_user("x");
  more.set_role(v1::ROLE_ADMIN);
  v1::CreateTokenResponse response;
  EXPECT_EQ(access_->CreateToken(As("").get(), more, &response).error_code(),
            Code::UNAUTHENTICATED);
  who.Clear();
  ASSERT_TRUE(access_->WhoAmI(As(root).get(), {}, &who).ok());
  EXPECT_EQ(who.user(), "root");
  EXPECT_EQ(who.token().role(), v1::ROLE_ADMIN);
  EXPECT_FALSE(who.open());

  // Streams ask too, and a restart opens nothing.
  Restart();
  grpc::Status status;
  EXPECT_THAT(Watch(before.name(), 0, &status), IsEmpty());
  EXPECT_EQ(status.error_code(), Code::UNAUTHENTICATED);
  std::string data;
  EXPECT_EQ(Download(before.name() + "/models/m", "x", 0, &data).error_code(),
            Code::UNAUTHENTICATED);
  v1::ReadLogRequest log;
  log.set_name(before.name());
  EXPECT_EQ(ReadLog(log, &data).error_code(), Code::UNAUTHENTICATED);
  EXPECT_EQ(GetAs(root, before.name()), Code::OK);
  // Two headers are no better than none.
  auto twice = As(root);
  twice->AddMetadata("authorization", "Bearer " + root);
  v1::ListJobsResponse list;
  EXPECT_EQ(training_->ListJobs(twice.get(), {}, &list).error_code(),
            Code::UNAUTHENTICATED);
}

// A caller without the right to create sweeps cannot make the server plan one:
// the refusal comes before the specification's faults are found.
TEST_F(SecurityTest, SweepsArePlannedOnlyForThoseWhoMayCreateThem) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string eve = Token(root, "eve", v1::ROLE_VIEWER);
  const std::string bob =
      Token(root, "bob", v1::ROLE_VIEWER, {{"fast", v1::ROLE_USER}});
  const auto sweeps = v1::SweepService::NewStub(channel_);
  v1::CreateSweepRequest request;
  v1::SweepGrid& grid = *request.mutable_spec()->mutable_grid();
  const auto create = [&](const std::string& secret) {
    v1::Sweep sweep;
    return sweeps->CreateSweep(As(secret).get(), request, &sweep).error_code();
  };
  EXPECT_EQ(create(eve), Code::PERMISSION_DENIED);
  EXPECT_EQ(create(bob), Code::PERMISSION_DENIED);
  v1::FieldValues& queues = *grid.add_fields();
  queues.set_path("queue");
  queues.add_values("fast");
  EXPECT_EQ(create(eve), Code::PERMISSION_DENIED);
  EXPECT_EQ(create(bob), Code::INVALID_ARGUMENT);
}

TEST_F(SecurityTest, RolesHoldPerQueue) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string alice = Token(root, "alice", v1::ROLE_USER);
  const std::string bob =
      Token(root, "bob", v1::ROLE_UNSPECIFIED, {{"fast", v1::ROLE_USER}});
  const std::string chief =
      Token(root, "chief", v1::ROLE_VIEWER, {{"fast", v1::ROLE_ADMIN}});
  const std::string eve = Token(root, "eve", v1::ROLE_VIEWER);
  for (const char* id : {"slow", "fast"}) {
    v1::CreateQueueRequest request;
    request.set_queue_id(id);
    v1::Queue queue;
    const auto queues = v1::QueueService::NewStub(channel_);
    EXPECT_EQ(
        queues->CreateQueue(As(chief).get(), request, &queue).error_code(),
        Code::PERMISSION_DENIED);
    ASSERT_TRUE(queues->CreateQueue(As(root).get(), request, &queue).ok());
  }

  std::string slow, fast, bobs;
  EXPECT_EQ(CreateAs(alice, "slow", &slow), Code::OK);
  EXPECT_EQ(CreateAs(alice, "fast", &fast), Code::OK);
  EXPECT_EQ(CreateAs(bob, "fast", &bobs), Code::OK);
  EXPECT_EQ(CreateAs(bob, "slow"), Code::PERMISSION_DENIED);
  EXPECT_EQ(CreateAs(chief, "slow"), Code::PERMISSION_DENIED);
  EXPECT_EQ(CreateAs(eve, "fast"), Code::PERMISSION_DENIED);

  v1::Job job;
  v1::GetJobRequest get;
  get.set_name(bobs);
  ASSERT_TRUE(training_->GetJob(As(root).get(), get, &job).ok());
  EXPECT_EQ(job.user(), "bob");

  EXPECT_EQ(GetAs(bob, slow), Code::PERMISSION_DENIED);
  EXPECT_EQ(GetAs(bob, fast), Code::OK);
  EXPECT_EQ(GetAs(eve, slow), Code::OK);
  EXPECT_EQ(SeriesAs(bob, slow), Code::PERMISSION_DENIED);
  EXPECT_EQ(SeriesAs(bob, fast), Code::OK);
  EXPECT_EQ(SeriesAs(eve, slow), Code::OK);
  EXPECT_EQ(SeriesAs("", slow), Code::UNAUTHENTICATED);
  EXPECT_EQ(CountAs(bob), 2u);
  EXPECT_EQ(CountAs(eve), 3u);

  // Others' jobs are an admin's.
  EXPECT_EQ(CancelAs(eve, slow), Code::PERMISSION_DENIED);
  EXPECT_EQ(CancelAs(bob, fast), Code::PERMISSION_DENIED);
  EXPECT_EQ(CancelAs(alice, bobs), Code::PERMISSION_DENIED);
  EXPECT_EQ(CancelAs(chief, slow), Code::PERMISSION_DENIED);
  EXPECT_EQ(CancelAs(chief, fast), Code::OK);
  EXPECT_EQ(CancelAs(bob, bobs), Code::OK);
  EXPECT_EQ(CancelAs(root, slow), Code::OK);
  EXPECT_EQ(CancelAs(bob, "jobs/nothing"), Code::NOT_FOUND);

  // Queue admins are no admins of the server.
  v1::ListTokensResponse tokens;
  EXPECT_EQ(access_->ListTokens(As(chief).get(), {}, &tokens).error_code(),
            Code::PERMISSION_DENIED);
  v1::ListAuditEntriesResponse audit;
  EXPECT_EQ(access_->ListAuditEntries(As(alice).get(), {}, &audit).error_code(),
            Code::PERMISSION_DENIED);
  ASSERT_TRUE(access_->ListTokens(As(root).get(), {}, &tokens).ok());
  EXPECT_THAT(tokens.tokens(), SizeIs(5));
}

TEST_F(SecurityTest, WorkersAndUsersAreApart) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string worker =
      Token(root, "w1", v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  EXPECT_EQ(CreateAs(worker, "default"), Code::PERMISSION_DENIED);
  v1::ListWorkersResponse workers;
  EXPECT_EQ(training_->ListWorkers(As(worker).get(), {}, &workers).error_code(),
            Code::PERMISSION_DENIED);
  EXPECT_EQ(CountAs(worker), 0u);
  v1::SynchronizeRequest request;
  request.set_worker("w1");
  request.set_incarnation("i");
  v1::SynchronizeResponse response;
  EXPECT_EQ(worker_stub_->Synchronize(As(worker).get(), request, &response)
                .error_code(),
            Code::OK);
  for (const std::string& secret : {root, std::string()}) {
    EXPECT_NE(worker_stub_->Synchronize(As(secret).get(), request, &response)
                  .error_code(),
              Code::OK);
  }
  // The attack: the same token, to pass for another worker, in the report or in
  // the call.
  request.set_worker("w2");
  EXPECT_EQ(worker_stub_->Synchronize(As(worker).get(), request, &response)
                .error_code(),
            Code::PERMISSION_DENIED);
  request.set_worker("w1");
  auto named = As(worker);
  named->AddMetadata(kWorkerMetadata, "w2");
  EXPECT_EQ(worker_stub_->Synchronize(named.get(), request, &response)
                .error_code(),
            Code::PERMISSION_DENIED);
  v1::ArtifactFile file = Describe("model.safetensors", "x");
  EXPECT_EQ(Upload("jobs/a/models/m", 1, file, "x").error_code(),
            Code::UNAUTHENTICATED);
}

// The attack: a worker of one job replaces another's model, and reads what its
// own jobs do not need.
TEST_F(SecurityTest, AWorkerTouchesItsOwnJobsOnly) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const auto as_worker = [&](const std::string& name) {
    return Token(root, name, v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  };
  const std::string w1 = as_worker("w1"), w2 = as_worker("w2");
  std::string job;
  ASSERT_EQ(CreateAs(root, "default", &job), Code::OK);
  v1::SynchronizeRequest report;
  report.set_worker("w1");
  report.set_incarnation("i1");
  report.add_slots()->set_device(v1::ResourceSpec::CPU);
  v1::SynchronizeResponse answer;
  do {
    ASSERT_TRUE(
        worker_stub_->Synchronize(As(w1).get(), report, &answer).ok());
    clock_.Advance(absl::Milliseconds(100));
  } while (answer.desired_size() == 0);

  EXPECT_EQ(UploadAs(w2, job), Code::PERMISSION_DENIED);
  EXPECT_EQ(UploadAs(w1, job), Code::OK);
  EXPECT_EQ(UploadAs(w1, job), Code::OK);
  EXPECT_EQ(FetchAs(w2, std::string(64, 'a')), Code::PERMISSION_DENIED);

  // And writes into the other's log, also after its job has ended.
  const auto add_line = [&](const std::string& secret,
                            const std::string& worker, int64_t offset) {
    v1::SynchronizeRequest request = report;
    request.set_worker(worker);
    request.clear_logs();
    v1::LogChunk& chunk = *request.add_logs();
    chunk.set_job(job);
    chunk.set_attempt(1);
    chunk.set_offset(offset);
    chunk.set_data(worker + " was here\n");
    ASSERT_TRUE(
        worker_stub_->Synchronize(As(secret).get(), request, &answer).ok());
  };
  const auto log = [&] {
    v1::ReadLogRequest request;
    request.set_name(job);
    const auto context = As(root);
    const auto reader = training_->ReadLog(context.get(), request);
    std::string text;
    v1::ReadLogResponse part;
    while (reader->Read(&part)) text += part.data();
    return text;
  };
  add_line(w2, "w2", 0);
  EXPECT_EQ(log(), "");
  add_line(w1, "w1", 0);
  EXPECT_EQ(log(), "w1 was here\n");
  ASSERT_EQ(CancelAs(root, job), Code::OK);
  v1::MemberStatus& member = *report.add_members();
  member.set_job(job);
  member.set_attempt(1);
  member.set_phase(v1::MemberStatus::EXITED);
  add_line(w1, "w1", 0);
  report.clear_members();
  add_line(w2, "w2", 12);
  EXPECT_EQ(log(), "w1 was here\n");
  add_line(w1, "w1", 12);
  EXPECT_EQ(log(), "w1 was here\nw1 was here\n");
  clock_.Advance(absl::Minutes(11));
  add_line(w1, "w1", 24);
  EXPECT_EQ(log(), "w1 was here\nw1 was here\n");
}

// The attack: a token of an earlier version, which names no worker, passes for
// any, and a call that leaves its worker's name out is asked for nothing.
TEST_F(SecurityTest, ATokenThatNamesNoWorkerStandsForNone) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string unbound =
      Token(root, "w1", v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  std::string job;
  ASSERT_EQ(CreateAs(root, "default", &job), Code::OK);
  Unbind(unbound);
  std::string message;
  for (const char* caller : {"w1", "w2", ""}) {
    EXPECT_EQ(SyncAs(unbound, caller, "w1", &message), Code::PERMISSION_DENIED);
    EXPECT_THAT(message, HasSubstr("comera token create --worker --name"));
  }
  EXPECT_EQ(UploadAs(unbound, job), Code::PERMISSION_DENIED);
  EXPECT_EQ(FetchAs(unbound, std::string(64, 'a')), Code::PERMISSION_DENIED);
  // An upgrade may need it for some time.
  options_.security.allow_unbound_worker_tokens = true;
  Restart();
  EXPECT_EQ(SyncAs(unbound, "w1", "w1"), Code::OK);
  EXPECT_EQ(FetchAs(unbound, std::string(64, 'a')), Code::NOT_FOUND);
}

// The attack: one who may see no job of a queue learns their names from the
// workers.
TEST_F(SecurityTest, WorkersNameOnlyJobsThatTheCallerMaySee) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string eve =
      Token(root, "eve", v1::ROLE_UNSPECIFIED, {{"fast", v1::ROLE_VIEWER}});
  const std::string worker =
      Token(root, "w1", v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  std::string job;
  ASSERT_EQ(CreateAs(root, "default", &job), Code::OK);
  v1::SynchronizeRequest report;
  report.set_worker("w1");
  report.set_incarnation("i1");
  report.add_slots()->set_device(v1::ResourceSpec::CPU);
  v1::SynchronizeResponse answer;
  do {
    ASSERT_TRUE(
        worker_stub_->Synchronize(As(worker).get(), report, &answer).ok());
    clock_.Advance(absl::Milliseconds(100));
  } while (answer.desired_size() == 0);
  v1::GetWorkerRequest request;
  request.set_name("workers/w1");
  for (const std::string& secret : {root, eve}) {
    v1::ListWorkersResponse workers;
    v1::WorkerSummary one;
    ASSERT_TRUE(
        training_->ListWorkers(As(secret).get(), {}, &workers).ok());
    ASSERT_TRUE(training_->GetWorker(As(secret).get(), request, &one).ok());
    ASSERT_THAT(workers.workers(), SizeIs(1));
    for (const v1::WorkerSummary& shown : {workers.workers(0), one}) {
      EXPECT_EQ(shown.jobs_size(), secret == root ? 1 : 0);
      EXPECT_EQ(shown.other_jobs(), secret == root ? 0 : 1);
    }
  }
}

// The attack: a watch that was opened before the token was revoked, or expired.
TEST_F(SecurityTest, StreamsEndWithTheirToken) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  v1::CreateTokenRequest brief;
  brief.set_user("bob");
  brief.set_role(v1::ROLE_USER);
  brief.mutable_lifetime()->set_seconds(3600);
  v1::CreateTokenResponse bob;
  ASSERT_TRUE(access_->CreateToken(As(root).get(), brief, &bob).ok());
  const std::string alice = Token(root, "alice", v1::ROLE_USER);
  std::string job;
  ASSERT_EQ(CreateAs(alice, "default", &job), Code::OK);
  v1::WatchJobRequest request;
  request.set_name(job);
  for (const std::string& secret : {alice, bob.secret(), root}) {
    const auto context = As(secret);
    const auto reader = training_->WatchJob(context.get(), request);
    v1::WatchJobResponse item;
    ASSERT_TRUE(reader->Read(&item));
    if (secret == alice) {
      v1::RevokeTokenRequest revoke;
      revoke.set_name("tokens/" + alice.substr(7, 12));
      v1::Token revoked;
      ASSERT_TRUE(access_->RevokeToken(As(root).get(), revoke, &revoked).ok());
    } else if (secret == root) {
      context->TryCancel();
    } else {
      clock_.Advance(absl::Hours(1));
    }
    const absl::Time begin = absl::Now();
    while (reader->Read(&item)) {
    }
    EXPECT_EQ(reader->Finish().error_code(),
              secret == root ? Code::CANCELLED : Code::UNAUTHENTICATED);
    // It is a second on a machine that does nothing else.
    EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  }
}

TEST_F(SecurityTest, RequestIdsBelongToTheirUser) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string alice = Token(root, "alice", v1::ROLE_USER);
  const std::string again = Token(root, "alice", v1::ROLE_USER);
  const std::string bob = Token(root, "bob", v1::ROLE_USER);
  v1::CreateJobRequest request;
  *request.mutable_spec() = TestSpec(1);
  request.set_request_id("r1");
  v1::Job first, same, other;
  ASSERT_TRUE(training_->CreateJob(As(alice).get(), request, &first).ok());
  // Two tokens of one name are one user.
  ASSERT_TRUE(training_->CreateJob(As(again).get(), request, &same).ok());
  EXPECT_EQ(same.name(), first.name());
  EXPECT_EQ(training_->CreateJob(As(bob).get(), request, &other).error_code(),
            Code::INVALID_ARGUMENT);
  EXPECT_EQ(other.name(), "");
}

TEST_F(SecurityTest, EveryChangeAndRefusalIsInTheAuditLog) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string alice = Token(root, "alice", v1::ROLE_USER);
  const std::string eve = Token(root, "eve", v1::ROLE_VIEWER);
  std::string job;
  ASSERT_EQ(CreateAs(alice, "default", &job), Code::OK);
  EXPECT_EQ(CancelAs(eve, job), Code::PERMISSION_DENIED);
  EXPECT_EQ(CancelAs(alice, job), Code::OK);
  EXPECT_EQ(CancelAs(alice, "jobs/nothing"), Code::NOT_FOUND);
  EXPECT_EQ(GetAs("comera_wrong", job), Code::UNAUTHENTICATED);
  // Reading, and trying without doing, change nothing.
  EXPECT_EQ(GetAs(alice, job), Code::OK);
  v1::CreateJobRequest dry;
  *dry.mutable_spec() = TestSpec(1);
  dry.set_validate_only(true);
  v1::Job none;
  EXPECT_TRUE(training_->CreateJob(As(alice).get(), dry, &none).ok());
  v1::RevokeTokenRequest revoke;
  revoke.set_name("tokens/" + alice.substr(7, 12));
  v1::Token revoked;
  ASSERT_TRUE(access_->RevokeToken(As(root).get(), revoke, &revoked).ok());

  const auto lines = [&](const std::vector<v1::AuditEntry>& entries) {
    std::vector<std::string> texts;
    for (const v1::AuditEntry& entry : entries) {
      texts.push_back(entry.user() + " " + entry.method() + " " +
                      (entry.resource() == job ? "JOB" : entry.resource()) +
                      " " + entry.result());
    }
    return texts;
  };
  std::vector<v1::AuditEntry> entries = Audit(root);
  const std::string tokens = "tokens/";
  EXPECT_THAT(
      lines(entries),
      ElementsAre(
          "root AccessService.RevokeToken " + revoke.name() + " OK",
          " TrainingService.GetJob  UNAUTHENTICATED",
          "alice TrainingService.CancelJob jobs/nothing NOT_FOUND",
          "alice TrainingService.CancelJob JOB OK",
          "eve TrainingService.CancelJob JOB PERMISSION_DENIED",
          "alice TrainingService.CreateJob JOB OK",
          "root AccessService.CreateToken " + tokens + eve.substr(7, 12) +
              " OK",
          "root AccessService.CreateToken " + tokens + alice.substr(7, 12) +
              " OK",
          " AccessService.CreateToken " + tokens + root.substr(7, 12) + " OK"));
  for (const v1::AuditEntry& entry : entries) {
    EXPECT_THAT(entry.peer(), HasSubstr("127.0.0.1")) << entry.DebugString();
    EXPECT_GT(entry.id(), 0);
    EXPECT_TRUE(entry.has_time());
    for (const std::string& secret : {root, alice, eve}) {
      EXPECT_THAT(entry.DebugString(), Not(HasSubstr(secret.substr(20))));
    }
  }
  EXPECT_EQ(entries[3].token(), tokens + alice.substr(7, 12));

  // Filters, pages, and it outlives the server.
  Restart();
  v1::ListAuditEntriesRequest request;
  request.set_user("alice");
  EXPECT_THAT(Audit(root, request), SizeIs(3));
  request.Clear();
  request.set_resource(job);
  EXPECT_THAT(Audit(root, request), SizeIs(3));
  request.set_resource(job.substr(0, job.size() - 1));
  EXPECT_THAT(Audit(root, request), IsEmpty());
  request.Clear();
  request.mutable_since()->set_seconds(absl::ToUnixSeconds(clock_.Now()) + 60);
  EXPECT_THAT(Audit(root, request), IsEmpty());
  request.Clear();
  request.set_page_size(4);
  std::set<int64_t> ids;
  for (int pages = 0; pages < 3; ++pages) {
    v1::ListAuditEntriesResponse page;
    ASSERT_TRUE(access_->ListAuditEntries(As(root).get(), request, &page).ok());
    for (const auto& entry : page.entries()) ids.insert(entry.id());
    request.set_page_token(page.next_page_token());
    EXPECT_EQ(page.next_page_token().empty(), pages == 2);
  }
  EXPECT_THAT(ids, SizeIs(9));
  request.set_page_token("x");
  v1::ListAuditEntriesResponse page;
  EXPECT_EQ(
      access_->ListAuditEntries(As(root).get(), request, &page).error_code(),
      Code::INVALID_ARGUMENT);
}

TEST_F(SecurityTest, AFloodOfRefusalsDoesNotFillTheDisk) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string eve = Token(root, "eve", v1::ROLE_VIEWER);
  const std::string alice = Token(root, "alice", v1::ROLE_VIEWER);
  // The clock stands still, so that only the bursts are let through.
  for (int i = 0; i < 150; ++i) {
    ASSERT_EQ(GetAs("", "jobs/x"), Code::UNAUTHENTICATED);
  }
  v1::ListAuditEntriesRequest request;
  request.set_page_size(1000);
  EXPECT_THAT(Audit(root, request), SizeIs(103));
  // Strangers hide nobody's failures, and no user hides another's.
  for (int i = 0; i < 1100; ++i) {
    ASSERT_EQ(CreateAs(eve, "default"), Code::PERMISSION_DENIED);
  }
  ASSERT_EQ(CreateAs(alice, "default"), Code::PERMISSION_DENIED);
  const std::vector<v1::AuditEntry> entries = Audit(root, request);
  ASSERT_THAT(entries, SizeIs(1000));
  EXPECT_EQ(entries[0].user(), "alice");
  EXPECT_EQ(entries[999].user(), "eve");
  clock_.Advance(absl::Seconds(10));
  ASSERT_EQ(GetAs("", "jobs/x"), Code::UNAUTHENTICATED);
  EXPECT_EQ(Audit(root, request)[0].suppressed(), 50);
  ASSERT_EQ(CreateAs(eve, "default"), Code::PERMISSION_DENIED);
  EXPECT_EQ(Audit(root, request)[0].suppressed(), 100);
}

TEST_F(SecurityTest, LimitsSayWhenToComeBack) {
  options_.security.limits.submissions_per_second = 1;
  options_.security.limits.submission_burst = 2;
  options_.security.limits.max_streams = 1;
  options_.security.limits.quota.queued_jobs = 3;
  options_.security.limits.max_request_bytes = 20000;
  Restart();
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string alice = Token(root, "alice", v1::ROLE_USER);
  const std::string bob = Token(root, "bob", v1::ROLE_USER);
  std::string job;
  EXPECT_EQ(CreateAs(alice, "default", &job), Code::OK);
  EXPECT_EQ(CreateAs(alice, "default"), Code::OK);
  v1::CreateJobRequest request;
  *request.mutable_spec() = TestSpec(1);
  v1::Job third;
  grpc::Status status = training_->CreateJob(As(alice).get(), request, &third);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  google::rpc::RetryInfo retry;
  bool found = false;
  for (const auto& detail : details.details()) {
    found = found || detail.UnpackTo(&retry);
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  // Others are not held up.
  EXPECT_EQ(CreateAs(bob, "default"), Code::OK);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(CreateAs(alice, "default"), Code::OK);
  clock_.Advance(absl::Seconds(2));
  status = training_->CreateJob(As(alice).get(), request, &third);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("3 jobs of alice are waiting"));
  EXPECT_EQ(CancelAs(alice, job), Code::OK);
  v1::ResumeJobRequest resume;
  resume.set_name(job);
  EXPECT_EQ(CreateAs(alice, "default", &job), Code::OK);
  status = training_->ResumeJob(As(alice).get(), resume, &third);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("3 jobs of alice are waiting"));

  clock_.Advance(absl::Seconds(9));
  (*request.mutable_spec()->mutable_labels())["note"] = std::string(30000, 'x');
  status = training_->CreateJob(As(bob).get(), request, &third);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("of at most 20000"));

  v1::WatchJobRequest watch;
  watch.set_name(job);
  v1::WatchJobResponse item;
  {
    auto first = As(alice);
    auto reader = training_->WatchJob(first.get(), watch);
    ASSERT_TRUE(reader->Read(&item));
    auto second = As(alice);
    auto refused = training_->WatchJob(second.get(), watch);
    EXPECT_FALSE(refused->Read(&item));
    EXPECT_EQ(refused->Finish().error_code(), Code::RESOURCE_EXHAUSTED);
    auto others = As(bob);
    auto others_reader = training_->WatchJob(others.get(), watch);
    EXPECT_TRUE(others_reader->Read(&item));
    others->TryCancel();
    others_reader->Finish();
    first->TryCancel();
    reader->Finish();
  }
  // A closed stream makes room, once the server has seen the end of it.
  Code code = Code::RESOURCE_EXHAUSTED;
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (code == Code::RESOURCE_EXHAUSTED && absl::Now() < end) {
    // So that it is not for asking too often.
    clock_.Advance(absl::Seconds(1));
    auto context = As(alice);
    auto reader = training_->WatchJob(context.get(), watch);
    const bool open = reader->Read(&item);
    if (open) context->TryCancel();
    code = reader->Finish().error_code();
    if (open) code = Code::OK;
  }
  EXPECT_EQ(code, Code::OK);
}

TEST_F(SecurityTest, HealthIsForAllReflectionForUsers) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  grpc::GenericStub stub(channel_);
  const auto call = [&](const std::string& method, const std::string& secret,
                        const std::string& request) {
    auto context = As(secret);
    grpc::CompletionQueue queue;
    auto stream = stub.PrepareCall(context.get(), method, &queue);
    void* tag = nullptr;
    bool ok = false;
    const auto wait = [&] { queue.Next(&tag, &ok); };
    stream->StartCall(nullptr);
    wait();
    const grpc::Slice slice(request);
    stream->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(),
                      nullptr);
    wait();
    grpc::ByteBuffer answer;
    stream->Read(&answer, nullptr);
    wait();
    const bool answered = ok;
    grpc::Status status;
    stream->Finish(&status, nullptr);
    wait();
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) continue;
    return std::make_pair(answered, status.error_code());
  };
  EXPECT_EQ(call("/grpc.health.v1.Health/Check", "", "").second, Code::OK);
  // ServerReflectionRequest { list_services: "*" }
  const std::string list = "\x3a\x01*";
  const std::string reflection =
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  EXPECT_FALSE(call(reflection, "", list).first);
  EXPECT_TRUE(call(reflection, root, list).first);
}

TEST_F(SecurityTest, Complaint21_OpenServersAreForThisMachineOnly) {
  const auto start = [&](const ComeraServer::Options& options) {
    return ComeraServer::Start(options, &clock_, &ids_,
                               [](const absl::Status&) {});
  };
  ComeraServer::Options options = options_;
  options.data_dir = folder_.path() + "/other";
  options.listen = "0.0.0.0:0";
  EXPECT_THAT(
      start(options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::AllOf(HasSubstr("no TLS"), HasSubstr("no tokens"))));
  Certificates certificates(folder_.path());
  certificates.Issue("server", "IP:127.0.0.1");
  // TLS without tokens, and tokens without TLS.
  options.security.tls.certificate = certificates.Certificate("server");
  options.security.tls.key = certificates.Key("server");
  EXPECT_THAT(start(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("no tokens")));
  options.security.tls = TlsFiles();
  options.security.init_admin_token_file = folder_.path() + "/admin.token";
  EXPECT_THAT(start(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("no TLS")));
  // With both it serves, and asks for them.
  options.security.tls.certificate = certificates.Certificate("server");
  options.security.tls.key = certificates.Key("server");
  auto server = start(options);
  ASSERT_OK(server);
  ChannelSecurity security;
  security.ca_file = certificates.Authority();
  const std::string address =
      "127.0.0.1" +
      (*server)->address().substr((*server)->address().rfind(':'));
  ASSERT_OK_AND_ASSIGN(auto channel, OpenChannel(address, security, {}));
  v1::ListJobsResponse list;
  EXPECT_EQ(v1::TrainingService::NewStub(channel)
                ->ListJobs(Context().get(), {}, &list)
                .error_code(),
            Code::UNAUTHENTICATED);
  security.token_file = folder_.path() + "/admin.token";
  ASSERT_OK_AND_ASSIGN(channel, OpenChannel(address, security, {}));
  EXPECT_TRUE(v1::TrainingService::NewStub(channel)
                  ->ListJobs(Context().get(), {}, &list)
                  .ok());
}

TEST_F(SecurityTest, FirstTokenIsWrittenForItsOwnerAlone) {
  const std::string path = folder_.path() + "/admin.token";
  options_.security.init_admin_token_file = path;
  Restart();
  EXPECT_EQ(
      std::filesystem::status(path).permissions(),
      std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::string secret;
  std::ifstream(path) >> secret;
  v1::WhoAmIResponse who;
  ASSERT_TRUE(access_->WhoAmI(As(secret).get(), {}, &who).ok());
  EXPECT_EQ(who.token().role(), v1::ROLE_ADMIN);
  // Not again.
  std::filesystem::remove(path);
  Restart();
  EXPECT_FALSE(std::filesystem::exists(path));
  // What cannot be written is not made.
  ComeraServer::Options options = options_;
  options.data_dir = folder_.path() + "/other";
  options.security.init_admin_token_file = "/nonexistent/folder/token";
  EXPECT_THAT(
      ComeraServer::Start(options, &clock_, &ids_, [](const absl::Status&) {}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("init_admin_token_file")));
}

class TlsTest : public SecurityTest {
 protected:
  TlsTest() : certificates_(folder_.path()) {
    certificates_.Issue("server", "DNS:localhost,IP:127.0.0.1");
    options_.security.tls.certificate = certificates_.Certificate("server");
    options_.security.tls.key = certificates_.Key("server");
    options_.security.tls.refresh_seconds = 1;
    trusting_.ca_file = certificates_.Authority();
  }

  Code List(const ChannelSecurity& security) {
    const auto channel = OpenChannel(server_->address(), security, {});
    EXPECT_OK(channel);
    if (!channel.ok()) return Code::UNKNOWN;
    v1::ListJobsResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(10));
    return v1::TrainingService::NewStub(*channel)
        ->ListJobs(&context, {}, &response)
        .error_code();
  }

  // The fingerprint of the certificate that the server shows to new
  // connections.
  std::string Fingerprint() {
    const std::string out = folder_.path() + "/fingerprint";
    const std::string command =
        "openssl s_client -connect " + server_->address() +
        " -alpn h2 </dev/null 2>/dev/null | openssl x509 -noout -fingerprint "
        "-sha256 > " +
        out + " 2>/dev/null";
    (void)!std::system(command.c_str());
    std::stringstream text;
    text << std::ifstream(out).rdbuf();
    return text.str();
  }

  Certificates certificates_;
  ChannelSecurity trusting_;
};

TEST_F(TlsTest, EachSideKnowsTheOther) {
  Restart();
  EXPECT_EQ(List(trusting_), Code::OK);
  EXPECT_EQ(List({}), Code::UNAVAILABLE);
  Certificates others(folder_.path(), "others");
  ChannelSecurity wrong;
  wrong.ca_file = others.Authority();
  EXPECT_EQ(List(wrong), Code::UNAVAILABLE);

  // The name counts too.
  certificates_.Issue("elsewhere", "DNS:example.com");
  options_.security.tls.certificate = certificates_.Certificate("elsewhere");
  options_.security.tls.key = certificates_.Key("elsewhere");
  Restart();
  EXPECT_EQ(List(trusting_), Code::UNAVAILABLE);
}

TEST_F(TlsTest, ClientsNeedCertificatesWhereAsked) {
  options_.security.tls.client_ca = certificates_.Authority();
  // Enough to serve other machines.
  options_.listen = "0.0.0.0:0";
  Restart();
  ChannelSecurity own = trusting_;
  certificates_.Issue("alice", "DNS:alice");
  own.certificate_file = certificates_.Certificate("alice");
  own.key_file = certificates_.Key("alice");
  const std::string address =
      "127.0.0.1" + server_->address().substr(server_->address().rfind(':'));
  const auto create = [&](const ChannelSecurity& security, v1::Job* job) {
    const auto channel = OpenChannel(address, security, {});
    EXPECT_OK(channel);
    v1::CreateJobRequest request;
    *request.mutable_spec() = TestSpec(1);
    return v1::TrainingService::NewStub(*channel)
        ->CreateJob(Context().get(), request, job)
        .error_code();
  };
  v1::Job job;
  EXPECT_EQ(create(own, &job), Code::OK);
  // Without tokens the certificate tells who it is.
  EXPECT_EQ(job.user(), "alice");
  EXPECT_EQ(create(trusting_, &job), Code::UNAVAILABLE);
  Certificates others(folder_.path(), "others");
  others.Issue("mallory", "DNS:mallory");
  ChannelSecurity false_one = trusting_;
  false_one.certificate_file = others.Certificate("mallory");
  false_one.key_file = others.Key("mallory");
  EXPECT_EQ(create(false_one, &job), Code::UNAVAILABLE);
}

// The attack: one machine's certificate, shown for another's worker.
TEST_F(TlsTest, ACertificateStandsForItsOwnWorker) {
  options_.security.tls.client_ca = certificates_.Authority();
  Restart();
  ChannelSecurity own = trusting_;
  certificates_.Issue("rack1", "DNS:rack1");
  own.certificate_file = certificates_.Certificate("rack1");
  own.key_file = certificates_.Key("rack1");
  const auto connect = [&] {
    access_.reset();
    channel_ = *OpenChannel(server_->address(), own, {});
    access_ = v1::AccessService::NewStub(channel_);
    training_ = v1::TrainingService::NewStub(channel_);
    worker_stub_ = v1::WorkerService::NewStub(channel_);
  };
  connect();
  // Without tokens.
  EXPECT_EQ(SyncAs("", "rack1", "rack1"), Code::OK);
  EXPECT_EQ(SyncAs("", "rack1-17", "rack1-17"), Code::OK);
  EXPECT_EQ(SyncAs("", "rack2", "rack2"), Code::PERMISSION_DENIED);
  EXPECT_EQ(SyncAs("", "", "rack1"), Code::OK);
  EXPECT_EQ(SyncAs("", "", "rack2"), Code::PERMISSION_DENIED);
  EXPECT_EQ(UploadAs("", "jobs/a"), Code::PERMISSION_DENIED);
  // With a token that names no worker.
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string unbound =
      Token(root, "w1", v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  Unbind(unbound);
  connect();
  EXPECT_EQ(SyncAs(unbound, "rack1", "rack1"), Code::OK);
  EXPECT_EQ(SyncAs(unbound, "w1", "w1"), Code::PERMISSION_DENIED);
  EXPECT_EQ(UploadAs(unbound, "jobs/a"), Code::PERMISSION_DENIED);
  // A token that names its worker decides.
  const std::string bound =
      Token(root, "w2", v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  EXPECT_EQ(SyncAs(bound, "w2", "w2"), Code::OK);
  EXPECT_EQ(SyncAs(bound, "rack1", "rack1"), Code::PERMISSION_DENIED);
}

TEST_F(TlsTest, RenewedCertificateIsServedWithoutARestart) {
  Restart();
  const std::string before = Fingerprint();
  ASSERT_THAT(before, HasSubstr("="));
  certificates_.Issue("server", "DNS:localhost,IP:127.0.0.1");
  std::string after = before;
  // Each look is a connection, so this does not spin; the server looks at the
  // files every second.
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (after == before && absl::Now() < limit) after = Fingerprint();
  EXPECT_NE(after, before);
  EXPECT_EQ(List(trusting_), Code::OK);
}

TEST_F(TlsTest, BadFilesAreNamed) {
  StopServer();
  const auto expect = [&](const TlsFiles& tls, const std::string& text) {
    ComeraServer::Options options = options_;
    options.security.tls = tls;
    EXPECT_THAT(ComeraServer::Start(options, &clock_, &ids_,
                                    [](const absl::Status&) {}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  const TlsFiles good = options_.security.tls;
  TlsFiles bad = good;
  bad.key.clear();
  expect(bad, "tls_key");
  bad = good;
  bad.certificate.clear();
  expect(bad, "tls_cert");
  bad = good;
  bad.certificate = "/nonexistent";
  expect(bad, "tls_cert: open /nonexistent");
  bad = good;
  bad.key = good.certificate;
  expect(bad, "holds no PEM key");
  certificates_.Issue("other", "DNS:localhost");
  bad = good;
  bad.key = certificates_.Key("other");
  expect(bad, "is not the key of");
  bad = good;
  bad.client_ca = good.key;
  expect(bad, "tls_client_ca");
}

TEST(RpcChannel, TokensDoNotTravelInTheClear) {
  ChannelSecurity security;
  security.token = "comera_abc";
  for (const char* address :
       {"example.com:7400", "10.0.0.1:7400", "dns:///example.com:1",
        "127.0.0.1.example.com:1", "[2001:db8::1]:1", "[::]:1"}) {
    EXPECT_THAT(OpenChannel(address, security, {}),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         ::testing::AllOf(HasSubstr("unencrypted"),
                                          Not(HasSubstr("comera_abc")))))
        << address;
  }
  for (const char* address : {"127.0.0.1:1", "localhost:1", "[::1]:1",
                              "unix:/x", "dns:///localhost:1"}) {
    EXPECT_OK(OpenChannel(address, security, {})) << address;
  }
  security.insecure_token = true;
  EXPECT_OK(OpenChannel("example.com:7400", security, {}));
  for (const std::string& token :
       {std::string("a b"), std::string("a\nb"), std::string("a\0b", 3),
        std::string(8000, 'a')}) {
    security.token = token;
    EXPECT_THAT(OpenChannel("127.0.0.1:1", security, {}),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  ChannelSecurity files;
  files.token_file = "/nonexistent";
  EXPECT_THAT(OpenChannel("127.0.0.1:1", files, {}),
              StatusIs(absl::StatusCode::kNotFound));
  files.token_file.clear();
  files.ca_file = "/etc/hostname";
  EXPECT_THAT(OpenChannel("127.0.0.1:1", files, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  files.ca_file.clear();
  files.certificate_file = "/etc/hostname";
  EXPECT_THAT(OpenChannel("127.0.0.1:1", files, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::server
