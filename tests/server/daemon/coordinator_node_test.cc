// Several coordinators on one PostgreSQL: who writes, who reads, who follows.
#include "server/daemon/coordinator_node.h"

#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/training_client.h"
#include "comera/v1/access_service.grpc.pb.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "common/coordinator_address.h"
#include "common/rpc_channel.h"
#include "common/status_matchers.h"
#include "tests/common/http/http_client.h"
#include "tests/security/certificates.h"
#include "tests/server/store/postgres_server.h"
#include "tests/server/temp_dir.h"
#include "tests/server/test_spec.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr absl::Duration kBound = absl::Seconds(60);
// Longer than a busy machine keeps a coordinator from its turn.
constexpr absl::Duration kLease = absl::Seconds(6);

// The system's clock, which can keep those who ask it, the event loop first.
class StickyClock : public Clock {
 public:
  absl::Time Now() override {
    std::unique_lock<std::mutex> lock(mutex_);
    kept_ = stuck_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !stuck_; });
    return absl::Now();
  }
  // Returns once somebody is kept.
  void Stick() {
    std::unique_lock<std::mutex> lock(mutex_);
    stuck_ = true;
    changed_.wait(lock, [this] { return kept_; });
  }
  void Release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stuck_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stuck_ = false;
  bool kept_ = false;
};

class CoordinatorNodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PostgresServer::Shared();
    if (server_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    url_ = server_->NewDatabase();
    // The first one leads.
    StartNode(&clock_);
    StartNode(Clock::Real());
    ASSERT_GT(nodes_[0]->term(), 0);
    ASSERT_EQ(nodes_[1]->term(), 0);
  }

  void StartNode(Clock* clock, const ServerSecurity::Options& security = {},
                 absl::Duration poll_interval = absl::Milliseconds(50)) {
    CoordinatorNode::Options options;
    options.server.store_url = url_;
    options.server.data_dir = folder_.path();
    options.server.http.server.listen = "127.0.0.1:0";
    options.server.security = security;
    options.lease.length = kLease;
    options.poll_interval = poll_interval;
    auto node = CoordinatorNode::Start(options, clock, &ids_);
    ASSERT_OK(node);
    nodes_.push_back(*std::move(node));
    addresses_.push_back(nodes_.back()->address());
    http_addresses_.push_back(nodes_.back()->http_address());
  }

  std::unique_ptr<client::TrainingClient> Client(const std::string& servers) {
    client::TrainingClient::Options options;
    options.initial_backoff = absl::Milliseconds(20);
    options.max_backoff = absl::Milliseconds(200);
    return client::TrainingClient::Connect(servers, options);
  }

  std::string Both() const {
    return absl::StrCat(addresses_[0], ",", addresses_[1]);
  }

  // A stub that follows nobody.
  std::unique_ptr<v1::TrainingService::Stub> Stub(int node) {
    return v1::TrainingService::NewStub(grpc::CreateChannel(
        addresses_[node], grpc::InsecureChannelCredentials()));
  }

  // The job as that node shows it, once `ready` says so.
  template <typename Ready>
  v1::Job GetUntil(int node, const std::string& name, Ready ready) {
    const auto stub = Stub(node);
    const absl::Time deadline = absl::Now() + kBound;
    while (absl::Now() < deadline) {
      grpc::ClientContext context;
      v1::GetJobRequest request;
      request.set_name(name);
      v1::Job job;
      if (stub->GetJob(&context, request, &job).ok() && ready(job)) return job;
      absl::SleepFor(absl::Milliseconds(10));
    }
    ADD_FAILURE() << name << " is not shown by node " << node;
    return v1::Job();
  }

  // Submits a job through that node.
  grpc::Status Create(int node, const ChannelSecurity& security, v1::Job* job) {
    const auto channel = OpenChannel(addresses_[node], security, {});
    grpc::ClientContext context;
    v1::CreateJobRequest request;
    *request.mutable_spec() = TestSpec(1);
    return v1::TrainingService::NewStub(*channel)->CreateJob(&context, request,
                                                             job);
  }

  static std::string Term(const grpc::ClientContext& context,
                          const char* key = kTermMetadata) {
    const auto& metadata = context.GetServerTrailingMetadata();
    const auto found = metadata.find(key);
    return found == metadata.end()
               ? ""
               : std::string(found->second.data(), found->second.size());
  }

  PostgresServer* server_ = nullptr;
  std::string url_;
  TempDir folder_;
  RandomIdSource ids_;
  // The first node's.
  StickyClock clock_;
  std::vector<std::unique_ptr<CoordinatorNode>> nodes_;
  std::vector<std::string> addresses_;
  std::vector<std::string> http_addresses_;
};

TEST_F(CoordinatorNodeTest, BothServeHttpAndTheFollowerPassesOn) {
  const auto call = [this](int node, const std::string& method,
                           const std::string& target,
                           const std::string& body = "") {
    return HttpClient(http_addresses_[node]).Call(method, target, {}, body);
  };
  EXPECT_EQ(call(0, "GET", "/readyz").body, "leader\n");
  EXPECT_EQ(call(1, "GET", "/readyz").body, "follower\n");
  EXPECT_EQ(call(0, "GET", "/readyz?leader").code, 200);
  EXPECT_EQ(call(1, "GET", "/readyz?leader").code, 503);
  EXPECT_EQ(call(1, "GET", "/v1/jobs").code, 200);
  EXPECT_EQ(call(1, "GET", "/v1/workers").code, 200);
  EXPECT_EQ(call(1, "GET", "/v1/sweeps").code, 200);
  EXPECT_EQ(
      call(1, "POST", "/v1/queues", R"({"queueId": "nightly", "queue": {}})")
          .code,
      200);
  EXPECT_THAT(call(1, "GET", "/v1/queues").body, HasSubstr("nightly"));
  EXPECT_EQ(call(1, "GET", "/v1/workers/none").code, 404);
  // The other takes over, at its own address.
  nodes_[0].reset();
  const absl::Time deadline = absl::Now() + kBound;
  while (call(1, "GET", "/readyz?leader").code != 200) {
    ASSERT_LT(absl::Now(), deadline);
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(call(1, "GET", "/v1/workers").code, 200);
  EXPECT_THAT(call(1, "GET", "/v1/queues").body, HasSubstr("nightly"));
}

// Whoever goes away, and however late the change is seen.
TEST_F(CoordinatorNodeTest, AFollowerAnswersThroughAChangeOfLeader) {
  // It looks so rarely that the second node takes over, also where the first
  // takes long to end.
  StartNode(Clock::Real(), {}, absl::Seconds(3));
  ASSERT_EQ(nodes_[2]->term(), 0);
  std::atomic<bool> over{false};
  std::vector<std::future<int>> callers;
  for (const bool changes : {false, true}) {
    callers.push_back(std::async(std::launch::async, [&, changes] {
      HttpClient http(http_addresses_[2]);
      int answered = 0;
      // There may be 1,000 queues.
      for (int i = 0; !over && (!changes || i < 900); ++i) {
        const HttpReply reply =
            changes ? http.Call("POST", "/v1/queues", {},
                                absl::StrCat(R"({"queueId": "q)", i,
                                             R"(", "queue": {}})"))
                    : http.Call("GET", "/v1/workers");
        if (changes && reply.code == 503) {
          // The leader that goes may have taken a change and not answered.
          EXPECT_THAT(reply.body, Not(HasSubstr("no coordinator leads")));
          continue;
        }
        EXPECT_EQ(reply.code, 200) << reply.body;
        if (reply.code != 200) break;
        ++answered;
      }
      return answered;
    }));
  }
  nodes_[0].reset();
  const absl::Time deadline = absl::Now() + kBound;
  while (nodes_[1]->term() == 0 && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  // The callers end in any case.
  EXPECT_GT(nodes_[1]->term(), 0);
  // The third has seen it, too, once this is answered.
  EXPECT_EQ(HttpClient(http_addresses_[2]).Call("GET", "/v1/workers").code,
            200);
  over = true;
  for (auto& caller : callers) EXPECT_GT(caller.get(), 0);
}

TEST_F(CoordinatorNodeTest, FollowerShowsJobsAndPassesTheRestOn) {
  const auto leader = Client(addresses_[0]);
  const auto stub = Stub(1);
  v1::Job job;
  {
    grpc::ClientContext context;
    v1::CreateJobRequest request;
    *request.mutable_spec() = TestSpec(1);
    ASSERT_TRUE(stub->CreateJob(&context, request, &job).ok());
    EXPECT_EQ(Term(context), absl::StrCat(nodes_[0]->term()));
  }
  {
    // The follower shows at once what it has let its caller do.
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_name(job.name());
    v1::Job found;
    EXPECT_TRUE(stub->GetJob(&context, request, &found).ok());
    EXPECT_EQ(Term(context), "");
  }
  {
    grpc::ClientContext context;
    v1::ListWorkersResponse workers;
    EXPECT_TRUE(stub->ListWorkers(&context, {}, &workers).ok());
  }
  {
    grpc::ClientContext context;
    v1::ReadSeriesRequest request;
    request.set_name(job.name());
    request.set_max_points(10);
    v1::JobSeries series;
    EXPECT_TRUE(stub->ReadSeries(&context, request, &series).ok());
    EXPECT_EQ(series.last_sequence(), 1);
  }
  {
    grpc::ClientContext context;
    v1::ListJobsRequest request;
    request.set_queue(job.spec().queue());
    v1::ListJobsResponse list;
    EXPECT_TRUE(stub->ListJobs(&context, request, &list).ok());
    EXPECT_EQ(list.total_size(), 1);
  }
  {
    // The leader's own error, with its details and its term.
    grpc::ClientContext context;
    v1::SynchronizeResponse unused;
    auto worker = v1::WorkerService::NewStub(
        grpc::CreateChannel(addresses_[1], grpc::InsecureChannelCredentials()));
    const grpc::Status status = worker->Synchronize(&context, {}, &unused);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_details(), HasSubstr("ErrorInfo"));
    EXPECT_EQ(Term(context), absl::StrCat(nodes_[0]->term()));
  }
  {
    // A stream of the caller's that the leader refuses at once.
    grpc::ClientContext context;
    v1::UploadArtifactResponse unused;
    auto worker = v1::WorkerService::NewStub(
        grpc::CreateChannel(addresses_[1], grpc::InsecureChannelCredentials()));
    auto writer = worker->UploadArtifact(&context, &unused);
    v1::UploadArtifactRequest request;
    request.mutable_header()->set_artifact("jobs/none/models/final");
    while (writer->Write(request)) {
    }
    EXPECT_FALSE(writer->Finish().ok());
  }
  {
    // A caller who hangs up.
    grpc::ClientContext context;
    v1::ReadLogRequest request;
    request.set_name(job.name());
    request.set_follow(true);
    auto reader = stub->ReadLog(&context, request);
    context.TryCancel();
    v1::ReadLogResponse response;
    while (reader->Read(&response)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }

  // A watch on the follower sees what the leader decides, to the end.
  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_name(job.name());
  auto reader = stub->WatchJob(&context, request);
  v1::WatchJobResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.job().state(), v1::QUEUED);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.event().state_change().state(), v1::QUEUED);
  ASSERT_OK(leader->Cancel(job.name(), "enough"));
  // Before that the job may come again, with the reason why it waits.
  do {
    ASSERT_TRUE(reader->Read(&response));
  } while (response.has_job());
  EXPECT_EQ(response.event().state_change().state(), v1::CANCELLED);
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_TRUE(reader->Finish().ok());
  GetUntil(1, job.name(),
           [](const v1::Job& j) { return j.state() == v1::CANCELLED; });
}

// The lease is renewed while the loop turns, and what the leader would say
// after it is withheld.
TEST_F(CoordinatorNodeTest, AStuckLeaderIsReplacedAndAnswersNothingMore) {
  const int64_t term = nodes_[0]->term();
  clock_.Stick();
  const auto stub = Stub(0);
  auto late = std::async(std::launch::async, [&stub] {
    grpc::ClientContext context;
    v1::ListWorkersResponse unused;
    return stub->ListWorkers(&context, {}, &unused);
  });
  const absl::Time deadline = absl::Now() + kBound;
  while (nodes_[1]->term() == 0 && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_GT(nodes_[1]->term(), term);
  clock_.Release();
  EXPECT_EQ(late.get().error_code(), grpc::StatusCode::UNAVAILABLE);
  // It becomes a follower, and passes calls on to its successor.
  while (nodes_[0]->term() > 0 && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  const auto client = Client(addresses_[0]);
  ASSERT_OK(client->Submit(TestSpec(1)));
  EXPECT_THAT(*Client(addresses_[1])->List({}, 0), SizeIs(1));
  EXPECT_EQ(nodes_[0]->term(), 0);
}

TEST_F(CoordinatorNodeTest, WithTlsCallersKeepTheirNames) {
  Certificates certificates(folder_.path());
  certificates.Issue("server", "IP:127.0.0.1");
  certificates.Issue("alice", "DNS:alice");
  nodes_.clear();
  addresses_.clear();
  ServerSecurity::Options security;
  security.tls.certificate = certificates.Certificate("server");
  security.tls.key = certificates.Key("server");
  security.tls.client_ca = certificates.Authority();
  StartNode(Clock::Real(), security);
  StartNode(Clock::Real(), security);
  ASSERT_GT(nodes_[0]->term(), 0);

  ChannelSecurity alice;
  alice.ca_file = certificates.Authority();
  alice.certificate_file = certificates.Certificate("alice");
  alice.key_file = certificates.Key("alice");
  v1::Job job;
  const grpc::Status passed_on = Create(1, alice, &job);
  EXPECT_TRUE(passed_on.ok()) << passed_on.error_message();
  EXPECT_EQ(job.user(), "alice");
}

// No flag says by whom the leader's certificate is signed.
TEST_F(CoordinatorNodeTest, WithTlsTheSystemsAuthoritiesAreKnown) {
  Certificates certificates(folder_.path());
  certificates.Issue("server", "IP:127.0.0.1");
  // Read once, at the first channel that asks for them.
  ASSERT_EQ(setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
                   certificates.Authority().c_str(), 1),
            0);
  nodes_.clear();
  addresses_.clear();
  ServerSecurity::Options security;
  security.tls.certificate = certificates.Certificate("server");
  security.tls.key = certificates.Key("server");
  StartNode(Clock::Real(), security);
  StartNode(Clock::Real(), security);
  ASSERT_GT(nodes_[0]->term(), 0);
  ChannelSecurity client;
  client.ca_file = certificates.Authority();
  v1::Job job;
  const grpc::Status passed_on = Create(1, client, &job);
  EXPECT_TRUE(passed_on.ok()) << passed_on.error_message();
  EXPECT_NE(job.name(), "");
}

// A token of several workers says nothing of which of them calls.
TEST_F(CoordinatorNodeTest, AWorkersNameIsPassedOn) {
  const auto leader =
      grpc::CreateChannel(addresses_[0], grpc::InsecureChannelCredentials());
  const auto access = v1::AccessService::NewStub(leader);
  const auto create = [&](const v1::CreateTokenRequest& request,
                          const std::string& secret) {
    grpc::ClientContext context;
    if (!secret.empty()) {
      context.AddMetadata("authorization", "Bearer " + secret);
    }
    v1::CreateTokenResponse response;
    const grpc::Status status =
        access->CreateToken(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.secret();
  };
  v1::CreateTokenRequest request;
  request.set_user("root");
  request.set_role(v1::ROLE_ADMIN);
  const std::string admin = create(request, "");
  request.Clear();
  request.set_user("nodes");
  request.set_worker(true);
  request.set_worker_name("node-*");
  const std::string token = create(request, admin);
  const auto follower = v1::WorkerService::NewStub(
      grpc::CreateChannel(addresses_[1], grpc::InsecureChannelCredentials()));
  for (const auto& [worker, code] :
       {std::pair<std::string, grpc::StatusCode>{"node-1", grpc::OK},
        {"other", grpc::PERMISSION_DENIED}}) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    context.AddMetadata(kWorkerMetadata, worker);
    v1::SynchronizeRequest report;
    report.set_worker(worker);
    report.set_incarnation("i");
    v1::SynchronizeResponse response;
    const grpc::Status status =
        follower->Synchronize(&context, report, &response);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
  }
}

TEST_F(CoordinatorNodeTest, ClientOfAFollowerIsLedToTheLeader) {
  const auto client = Client(addresses_[1]);
  ASSERT_OK_AND_ASSIGN(const v1::Job job, client->Submit(TestSpec(1)));
  EXPECT_THAT(*Client(addresses_[0])->List({}, 0), SizeIs(1));
  EXPECT_OK(client->Cancel(job.name(), ""));
}

// A submission whose answer was lost is repeated at the coordinator that took
// over, and stays one job.
TEST_F(CoordinatorNodeTest,
       Complaint19_RepeatedSubmissionIsOneJobAfterFailOver) {
  const auto client = Client(Both());
  client::TrainingClient::SubmitOptions options;
  options.request_id = "only-once";
  ASSERT_OK_AND_ASSIGN(const v1::Job job, client->Submit(TestSpec(1), options));
  // Both name the cluster alike.
  const auto cluster = [this](int node) {
    grpc::ClientContext context;
    v1::ListWorkersResponse unused;
    EXPECT_TRUE(Stub(node)->ListWorkers(&context, {}, &unused).ok());
    return Term(context, kClusterMetadata);
  };
  const std::string name = cluster(0);
  EXPECT_NE(name, "");
  nodes_[0].reset();
  ASSERT_OK_AND_ASSIGN(const v1::Job again,
                       client->Submit(TestSpec(1), options));
  EXPECT_EQ(cluster(1), name);
  EXPECT_EQ(again.name(), job.name());
  EXPECT_THAT(*client->List({}, 0), SizeIs(1));
  EXPECT_GT(nodes_[1]->term(), 0);
  v1::JobSpec other = TestSpec(1);
  other.set_priority(5);
  EXPECT_THAT(client->Submit(other, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(CoordinatorNodeTest, LostDatabaseSessionsAreALostLeadership) {
  const auto client = Client(Both());
  ASSERT_OK(client->Submit(TestSpec(1)));
  const int64_t term = nodes_[0]->term();
  server_->DropSessions();
  // Whoever leads now, the job is there and the next one is taken.
  ASSERT_OK(client->Submit(TestSpec(1)));
  EXPECT_THAT(*client->List({}, 0), SizeIs(2));
  EXPECT_GT(std::max(nodes_[0]->term(), nodes_[1]->term()), term);
}

TEST_F(CoordinatorNodeTest, AddressesAreChecked) {
  CoordinatorNode::Options options;
  options.server.store_url = url_;
  options.server.data_dir = folder_.path();
  options.server.listen = "0.0.0.0:0";
  options.server.security.insecure_allow_remote = true;
  EXPECT_THAT(
      CoordinatorNode::Start(options, Clock::Real(), &ids_),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("advertise")));
  options.advertise = "node1";
  EXPECT_THAT(
      CoordinatorNode::Start(options, Clock::Real(), &ids_),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("advertise")));
  options.server.store_url = "postgres://me:secret@db/comera";
  EXPECT_THAT(
      CoordinatorNode::Start(options, Clock::Real(), &ids_),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("PGPASSFILE")));
}

TEST(CoordinatorTargetTest, ListsBecomeOneTarget) {
  grpc::ChannelArguments arguments;
  EXPECT_EQ(*CoordinatorTarget("db:7400", &arguments), "db:7400");
  EXPECT_EQ(*CoordinatorTarget("127.0.0.1:1,127.0.0.2:2", &arguments),
            "ipv4:127.0.0.1:1,127.0.0.2:2");
  EXPECT_EQ(*CoordinatorTarget("[::1]:1,[::1]:2", &arguments),
            "ipv6:[::1]:1,[::1]:2");
  for (const char* bad : {"127.0.0.1:1,", "127.0.0.1:1,b", "a:1,b:99999"}) {
    EXPECT_THAT(CoordinatorTarget(bad, &arguments),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace comera::server
