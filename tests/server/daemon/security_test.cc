// Tokens, roles, limits and the audit log over real gRPC.

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "comera/rpc/error_details.pb.h"
#include "comera/v1/access_service.grpc.pb.h"
#include "comera/v1/queue_service.grpc.pb.h"
#include "comera/v1/sweep_service.grpc.pb.h"
#include "common/rpc_channel.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/security/certificates.h"
#include "tests/server/daemon/security_fixture.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

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

TEST_F(SecurityTest, QueuesAreListedToThoseWhoMaySeeThem) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string bob =
      Token(root, "bob", v1::ROLE_UNSPECIFIED, {{"fast", v1::ROLE_USER}});
  const std::string eve = Token(root, "eve", v1::ROLE_VIEWER);
  const auto queues = v1::QueueService::NewStub(channel_);
  for (const char* id : {"slow", "fast"}) {
    v1::CreateQueueRequest request;
    request.set_queue_id(id);
    v1::Queue queue;
    ASSERT_TRUE(queues->CreateQueue(As(root).get(), request, &queue).ok());
  }
  const auto list = [&](const std::string& secret) {
    v1::ListQueuesResponse response;
    const grpc::Status status = queues->ListQueues(
        As(secret).get(), v1::ListQueuesRequest(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> names;
    for (const v1::Queue& queue : response.queues()) {
      names.push_back(queue.name());
    }
    return names;
  };
  EXPECT_THAT(list(bob), testing::ElementsAre("queues/fast"));
  EXPECT_THAT(list(eve), testing::ElementsAre("queues/default", "queues/fast",
                                              "queues/slow"));
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

}  // namespace
}  // namespace comera::server
