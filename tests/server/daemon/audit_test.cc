// What the audit log holds, and for how long, over real gRPC; and that nobody
// is told of a change before its entry is durable.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comera/v1/access_service.grpc.pb.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "server/api/access_service.h"
#include "server/api/audited_call.h"
#include "server/auth/audit_log.h"
#include "server/auth/forwarded_calls.h"
#include "server/auth/rate_limit.h"
#include "server/auth/token_access.h"
#include "server/auth/token_store.h"
#include "server/host/coordinator_host.h"
#include "tests/server/daemon/server_fixture.h"
#include "tests/server/prepared_test_job.h"
#include "tests/server/sequential_ids.h"
#include "tests/server/store/fake_job_store.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Code = grpc::StatusCode;

class AuditTest : public ServerFixture {
 protected:
  AuditTest() {
    options_.host.retention.keep_jobs = absl::Hours(48);
    options_.host.retention.keep_logs = absl::Hours(24);
    Restart();
    root_ = Token("", "root", v1::ROLE_ADMIN);
    alice_ = Token(root_, "alice", v1::ROLE_USER);
    eve_ = Token(root_, "eve", v1::ROLE_VIEWER);
  }

  void Restart() {
    access_.reset();
    RestartServer();
    access_ = v1::AccessService::NewStub(channel_);
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

  std::string CreateAs(const std::string& secret) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = TestSpec(1);
    v1::Job job;
    EXPECT_TRUE(training_->CreateJob(As(secret).get(), request, &job).ok());
    return job.name();
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

  Code UploadAs(const std::string& secret, const std::string& job) {
    const auto context = As(secret);
    v1::UploadArtifactResponse response;
    const auto writer = worker_stub_->UploadArtifact(context.get(), &response);
    v1::UploadArtifactRequest request;
    request.mutable_header()->set_artifact(job + "/models/final");
    request.mutable_header()->set_attempt(1);
    *request.mutable_header()->mutable_file() =
        Describe("model.safetensors", "the model");
    writer->Write(request);
    request.set_data("the model");
    writer->Write(request);
    writer->WritesDone();
    return writer->Finish().error_code();
  }

  // All entries, oldest first.
  std::vector<v1::AuditEntry> Entries() {
    v1::ListAuditEntriesRequest request;
    request.set_page_size(1000);
    v1::ListAuditEntriesResponse response;
    const grpc::Status status =
        access_->ListAuditEntries(As(root_).get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.next_page_token(), "");
    return {response.entries().rbegin(), response.entries().rend()};
  }

  // Tells of each after the first `skipped`: "alice TrainingService.CreateJob
  // OK".
  std::vector<std::string> Lines(size_t skipped = 0) {
    std::vector<std::string> lines;
    for (const v1::AuditEntry& entry : Entries()) {
      if (skipped > 0) {
        --skipped;
        continue;
      }
      lines.push_back(
          absl::StrCat(entry.user(), " ", entry.method(), " ", entry.result()));
    }
    return lines;
  }

  std::string root_, alice_, eve_;
  std::unique_ptr<v1::AccessService::Stub> access_;
};

TEST_F(AuditTest, AllowedAndRefusedChangesAreInTheLog) {
  const size_t before = Entries().size();
  const std::string job = CreateAs(alice_);
  EXPECT_EQ(CancelAs(eve_, job), Code::PERMISSION_DENIED);
  EXPECT_EQ(CancelAs("", job), Code::UNAUTHENTICATED);
  EXPECT_EQ(CancelAs(alice_, job), Code::OK);
  EXPECT_THAT(Lines(before),
              ElementsAre("alice TrainingService.CreateJob OK",
                          "eve TrainingService.CancelJob PERMISSION_DENIED",
                          " TrainingService.CancelJob UNAUTHENTICATED",
                          "alice TrainingService.CancelJob OK"));
  const v1::AuditEntry refused = Entries()[before + 1];
  EXPECT_EQ(refused.resource(), job);
  EXPECT_EQ(refused.token(), "tokens/" + eve_.substr(7, 12));
  EXPECT_THAT(refused.peer(), HasSubstr("127.0.0.1"));
}

// Thousands of reports a second are no changes that somebody made. What a
// worker is refused is told all the same.
TEST_F(AuditTest, ReportsOfWorkersAreNotInTheLog) {
  const std::string w1 = Token(root_, "w1", v1::ROLE_UNSPECIFIED, true);
  const std::string w2 = Token(root_, "w2", v1::ROLE_UNSPECIFIED, true);
  const std::string job = CreateAs(alice_);
  const size_t before = Entries().size();
  v1::SynchronizeRequest report;
  report.set_worker("w1");
  report.set_incarnation("i1");
  report.add_slots()->set_device(v1::ResourceSpec::CPU);
  v1::SynchronizeResponse answer;
  const absl::Time end = absl::Now() + absl::Seconds(30);
  do {
    ASSERT_LT(absl::Now(), end) << "the job was not placed";
    ASSERT_TRUE(worker_stub_->Synchronize(As(w1).get(), report, &answer).ok());
    clock_.Advance(absl::Milliseconds(100));
  } while (answer.desired_size() == 0);
  v1::MemberStatus& member = *report.add_members();
  member.set_job(job);
  member.set_attempt(1);
  member.set_phase(v1::MemberStatus::RUNNING);
  v1::ProgressReport& progress = *report.add_reports();
  progress.set_job(job);
  progress.set_attempt(1);
  progress.set_number(1);
  progress.mutable_event()->mutable_metrics()->set_step(10);
  v1::LogChunk& line = *report.add_logs();
  line.set_job(job);
  line.set_attempt(1);
  line.set_data("a line\n");
  ASSERT_TRUE(worker_stub_->Synchronize(As(w1).get(), report, &answer).ok());
  EXPECT_EQ(UploadAs(w1, job), Code::OK);
  EXPECT_THAT(Lines(before), IsEmpty());
  EXPECT_EQ(UploadAs(w2, job), Code::PERMISSION_DENIED);
  member.set_phase(v1::MemberStatus::EXITED);
  member.mutable_result()->set_outcome(v1::COMPLETED);
  ASSERT_TRUE(worker_stub_->Synchronize(As(w1).get(), report, &answer).ok());
  report.set_worker("w2");
  EXPECT_EQ(
      worker_stub_->Synchronize(As(w1).get(), report, &answer).error_code(),
      Code::PERMISSION_DENIED);
  EXPECT_THAT(Lines(before),
              ElementsAre("w2 WorkerService.UploadArtifact PERMISSION_DENIED",
                          "w1 WorkerService.Synchronize PERMISSION_DENIED"));
}

// Jobs, their logs and tokens go; what was done to them stays known.
TEST_F(AuditTest, EntriesOutliveWhatTheyTellOf) {
  // The first look at what has expired comes some time after the start.
  clock_.Advance(absl::Minutes(2));
  server_->host().TickNow();
  const std::string deleted = CreateAs(alice_), expired = CreateAs(alice_);
  for (const std::string& job : {deleted, expired}) {
    EXPECT_EQ(CancelAs(eve_, job), Code::PERMISSION_DENIED);
    EXPECT_EQ(CancelAs(alice_, job), Code::OK);
  }
  v1::RevokeTokenRequest revoke;
  revoke.set_name("tokens/" + eve_.substr(7, 12));
  v1::Token revoked;
  ASSERT_TRUE(access_->RevokeToken(As(root_).get(), revoke, &revoked).ok());
  v1::DeleteJobRequest remove;
  remove.set_name(deleted);
  v1::DeleteJobResponse removed;
  ASSERT_TRUE(training_->DeleteJob(As(alice_).get(), remove, &removed).ok());
  const auto text = [&] {
    std::vector<std::string> texts;
    for (const auto& entry : Entries()) texts.push_back(entry.DebugString());
    return texts;
  };
  const std::vector<std::string> before = text();
  EXPECT_THAT(before, SizeIs(3 + 2 * 3 + 2));

  clock_.Advance(absl::Hours(49));
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (GetAs(alice_, expired) != Code::NOT_FOUND) {
    ASSERT_LT(absl::Now(), end) << "the job was not forgotten";
    server_->host().TickNow();
  }
  for (int year = 0; year < 3; ++year) {
    clock_.Advance(absl::Hours(24 * 365));
    server_->host().TickNow();
  }
  EXPECT_EQ(text(), before);
  Restart();
  EXPECT_EQ(text(), before);
}

// A store that tells how many entries came with the job that they are about,
// and how many without.
class WatchedStore : public FakeJobStore {
 public:
  absl::Status Commit(const StoreBatch& batch) override {
    for (const AuditRow& row : batch.audit) {
      v1::AuditEntry entry;
      EXPECT_TRUE(entry.ParseFromString(row.entry));
      const bool together = std::any_of(
          batch.records.begin(), batch.records.end(), [&](const auto& record) {
            return record.job().name() == entry.resource();
          });
      ++(together ? together_ : alone_);
    }
    return FakeJobStore::Commit(batch);
  }
  int together() const { return together_; }
  int alone() const { return alone_; }

 private:
  std::atomic<int> together_{0}, alone_{0};
};

TEST(AuditedJobTest, TheEntryOfAJobIsStoredWithTheJobOrNeitherIs) {
  TempDir folder;
  WatchedStore store;
  SequentialIds ids;
  ManualClock clock;
  CoordinatorHost::Options options;
  options.data_dir = folder.path();
  options.tick_interval = absl::InfiniteDuration();
  auto host = CoordinatorHost::Start(options, &store, &ids, &clock,
                                     [](const absl::Status&) {});
  ASSERT_OK(host);
  const JobAudit audit = [](const v1::Job& job, absl::Time now) {
    v1::AuditEntry entry;
    entry.set_resource(job.name());
    return AuditLog::ToRow(entry, now);
  };
  const auto create = [&] {
    std::promise<absl::StatusOr<v1::Job>> made;
    (*host)->CreateJob(
        PreparedTestJob(TestSpec(1)),
        [&](absl::StatusOr<v1::Job> job) { made.set_value(std::move(job)); },
        audit);
    return made.get_future().get();
  };
  // The store's thread may take two batches together by chance, but not each
  // time.
  constexpr int kJobs = 50;
  for (int i = 0; i < kJobs; ++i) {
    const auto job = create();
    ASSERT_OK(job);
    std::promise<absl::Status> cancelled;
    (*host)->CancelJob(
        job->name(), "",
        [&](const absl::StatusOr<v1::Job>& done) {
          cancelled.set_value(done.status());
        },
        audit);
    ASSERT_OK(cancelled.get_future().get());
  }
  EXPECT_EQ(store.together(), 2 * kJobs);
  EXPECT_EQ(store.alone(), 0);
  store.FailCommits(absl::DataLossError("the disk is gone"));
  EXPECT_THAT(create(), Not(IsOk()));
  EXPECT_THAT(*store.ReadAudit(0, 1000), SizeIs(2 * kJobs));
  EXPECT_THAT(*store.LoadJobs(), SizeIs(kJobs));
}

// The service for tokens, whose audit log is written when the test says so.
class AuditedReplyTest : public ::testing::Test {
 protected:
  AuditedReplyTest() {
    tokens_ = *TokenStore::Load(
        {}, &clock_, [](StoreBatch, auto done) { done(absl::OkStatus()); });
    log_ = std::make_unique<AuditLog>(
        &clock_,
        [this](StoreBatch batch, AuditLog::WriteDone done) {
          EXPECT_THAT(batch.audit, SizeIs(1));
          // The store does it on a thread of its own, later.
          const std::lock_guard<std::mutex> lock(mutex_);
          writers_.emplace_back([this, done = std::move(done)] {
            absl::SleepFor(absl::Milliseconds(100));
            if (stored_.ok()) ++durable_;
            done(stored_);
          });
        },
        [](const std::function<void(JobStore*)>&) {});
    access_ = std::make_unique<TokenAccess>(
        TokenAccess::Options(), tokens_.get(), &limits_, &forwarded_);
    service_ = std::make_unique<AccessService>(access_.get(), tokens_.get(),
                                               log_.get());
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(service_.get());
    std::vector<
        std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
        interceptors;
    interceptors.push_back(
        MakeCallAuditor(access_.get(), &forwarded_, log_.get(), &changes_));
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
    server_ = builder.BuildAndStart();
    stub_ = v1::AccessService::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }

  ~AuditedReplyTest() override {
    server_->Shutdown();
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::thread& writer : writers_) writer.join();
  }

  grpc::Status CreateFirstToken() {
    v1::CreateTokenRequest request;
    request.set_user("root");
    request.set_role(v1::ROLE_ADMIN);
    v1::CreateTokenResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(20));
    return stub_->CreateToken(&context, request, &response);
  }

  ManualClock clock_;
  // How the store takes an entry.
  absl::Status stored_;
  std::mutex mutex_;
  std::vector<std::thread> writers_;
  std::atomic<int> durable_{0};
  std::atomic<int64_t> changes_{0};
  ForwardedCalls forwarded_;
  UserLimits limits_{UserLimits::Options(), &clock_};
  std::unique_ptr<TokenStore> tokens_;
  std::unique_ptr<AuditLog> log_;
  std::unique_ptr<TokenAccess> access_;
  std::unique_ptr<AccessService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::AccessService::Stub> stub_;
};

TEST_F(AuditedReplyTest, AReplyWaitsUntilItsEntryIsDurable) {
  const grpc::Status status = CreateFirstToken();
  EXPECT_EQ(durable_, 1) << "the reply came first";
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(AuditedReplyTest, NoChangeIsConfirmedWithoutItsEntry) {
  stored_ = absl::ResourceExhaustedError("disk full");
  const grpc::Status status = CreateFirstToken();
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE);
  EXPECT_THAT(status.error_message(),
              HasSubstr("the audit log cannot be written"));
}

}  // namespace
}  // namespace comera::server
