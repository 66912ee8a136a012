// A follower's calls while the leader changes: held, passed on, begun again.
#include "server/daemon/leader_forwarder.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

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
#include "comera/rpc/error_details.pb.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "common/coordinator_address.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/daemon/no_answer.h"
#include "server/runtime/event_loop.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kBound = absl::Seconds(20);
constexpr char kSecret[] = "of-the-leadership";

// Answers with what it was asked for, or ends calls as it is told to.
class PlayedService : public v1::TrainingService::Service {
 public:
  grpc::Status CreateJob(grpc::ServerContext* context,
                         const v1::CreateJobRequest* request,
                         v1::Job* job) override {
    job->set_name("jobs/1");
    *job->mutable_spec() = request->spec();
    return Answer(context, request->spec().display_name());
  }
  grpc::Status ListWorkers(grpc::ServerContext* context,
                           const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse*) override {
    return Answer(context, "workers");
  }

  // The next calls end with this, and with that mark if it is not empty.
  void Fail(const grpc::Status& status, const std::string& mark) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = status;
    mark_ = mark;
  }
  std::vector<std::string> calls() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }

 private:
  grpc::Status Answer(grpc::ServerContext* context, const std::string& call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back(call);
    context->AddTrailingMetadata(kTermMetadata, "7");
    if (!mark_.empty()) context->AddTrailingMetadata(kNoAnswerMetadata, mark_);
    return failure_;
  }

  std::mutex mutex_;
  grpc::Status failure_;
  std::string mark_;
  std::vector<std::string> calls_;
};

// Keeps a port of loopback from other programs while nobody listens at it; a
// server of gRPC's, which binds with SO_REUSEADDR as well, still may.
class HeldPort {
 public:
  HeldPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int on = 1;
    EXPECT_EQ(setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, generic, size), 0);
    EXPECT_EQ(getsockname(socket_, generic, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~HeldPort() { close(socket_); }

  int port() const { return port_; }

 private:
  const int socket_;
  int port_ = 0;
};

// A gRPC server on a port of its own.
struct PlayedServer {
  template <typename Register>
  void Start(Register add) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port),
                             grpc::InsecureServerCredentials(), &port);
    // Two servers on one port would share its calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    add(&builder);
    server = builder.BuildAndStart();
    ASSERT_NE(server, nullptr);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port); }
  std::shared_ptr<grpc::Channel> Channel() const {
    return grpc::CreateChannel(address(), grpc::InsecureChannelCredentials());
  }

  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

// A coordinator that does not lead.
class Follower {
 public:
  explicit Follower(LeaderForwarder::Options options = {})
      : forwarder_(
            options, &leader_, &calls_,
            [this](std::function<void()> done) {
              ++catch_ups_;
              done();
            },
            [this](absl::Duration delay, std::function<void()> closure) {
              loop_->PostAfter(delay, std::move(closure));
            }) {
    server_.Start([this](grpc::ServerBuilder* builder) {
      builder->RegisterCallbackGenericService(&forwarder_);
    });
  }
  ~Follower() {
    forwarder_.Stop();
    server_.server->Shutdown();
    server_.server.reset();
    loop_.reset();
  }

  LeaderHint& leader() { return leader_; }
  LeaderForwarder& forwarder() { return forwarder_; }
  int catch_ups() const { return catch_ups_; }
  std::unique_ptr<v1::TrainingService::Stub> Stub() const {
    return v1::TrainingService::NewStub(server_.Channel());
  }
  // Returns once that many calls are held.
  void AwaitHeld(size_t calls) {
    const absl::Time deadline = absl::Now() + kBound;
    while (forwarder_.held() != calls) {
      ASSERT_LT(absl::Now(), deadline);
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

 private:
  LeaderHint leader_;
  const ForwardedCalls calls_;
  std::atomic<int> catch_ups_{0};
  std::unique_ptr<EventLoop> loop_ = std::make_unique<EventLoop>();
  LeaderForwarder forwarder_;
  PlayedServer server_;
};

class LeaderForwarderTest : public ::testing::Test {
 protected:
  void StartServer(PlayedServer* server, PlayedService* service) {
    server->Start([service](grpc::ServerBuilder* builder) {
      builder->RegisterService(service);
    });
  }
  void StartLeader() { StartServer(&leader_, &service_); }
  LeaderHint::Leader Hint() const { return {leader_.address(), kSecret}; }

  std::future<grpc::Status> Create(Follower& follower, const std::string& name,
                                   v1::Job* job = nullptr) {
    return std::async(
        std::launch::async,
        [stub = std::shared_ptr(follower.Stub()), name, job] {
          grpc::ClientContext context;
          v1::CreateJobRequest request;
          request.mutable_spec()->set_display_name(name);
          v1::Job unused;
          const grpc::Status status = stub->CreateJob(
              &context, request, job == nullptr ? &unused : job);
          EXPECT_EQ(
              context.GetServerTrailingMetadata().count(kNoAnswerMetadata), 0u);
          return status;
        });
  }
  std::future<grpc::Status> ListWorkers(Follower& follower) {
    return std::async(std::launch::async,
                      [stub = std::shared_ptr(follower.Stub())] {
                        grpc::ClientContext context;
                        v1::ListWorkersResponse unused;
                        return stub->ListWorkers(&context, {}, &unused);
                      });
  }

  PlayedService service_;
  PlayedServer leader_;
};

TEST_F(LeaderForwarderTest, ACallWaitsForALeader) {
  Follower follower;
  v1::Job job;
  auto status = Create(follower, "first", &job);
  follower.AwaitHeld(1);
  StartLeader();
  follower.leader().Set(Hint());
  EXPECT_TRUE(status.get().ok());
  EXPECT_EQ(job.spec().display_name(), "first");
  EXPECT_THAT(service_.calls(), ElementsAre("first"));
  EXPECT_EQ(follower.catch_ups(), 1);
  EXPECT_EQ(follower.forwarder().held(), 0u);
}

// Its certificate is of an authority that the system does not know; here it has
// none.
TEST_F(LeaderForwarderTest, CallersAreSentToALeaderThatTheSystemDoesNotKnow) {
  StartLeader();
  LeaderForwarder::Options options;
  options.security.ca_file = "system";
  // A leader that is about to listen is waited for as long.
  options.patience = absl::Milliseconds(300);
  Follower follower(options);
  follower.leader().Set(Hint());
  const grpc::Status status = Create(follower, "first").get();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "NOT_LEADER");
  EXPECT_EQ(info.metadata().at("leader"), leader_.address());
  EXPECT_THAT(service_.calls(), IsEmpty());
}

TEST_F(LeaderForwarderTest, ALeaderThatIsNotThereYetIsNoAnswer) {
  const HeldPort port;
  leader_.port = port.port();
  Follower follower;
  follower.leader().Set(Hint());
  auto status = Create(follower, "second");
  follower.AwaitHeld(1);
  // At the port that nobody listened at.
  StartLeader();
  EXPECT_TRUE(status.get().ok());
  EXPECT_THAT(service_.calls(), ElementsAre("second"));
}

TEST_F(LeaderForwarderTest, WhoDoesNotLeadBeginsNothing) {
  Follower follower;
  {
    // It does not hold what another one passes on to it.
    grpc::ClientContext context;
    ForwardedCalls::Mark("of-an-earlier-leadership", {}, &context);
    v1::Job unused;
    EXPECT_EQ(follower.Stub()
                  ->CreateJob(&context, v1::CreateJobRequest(), &unused)
                  .error_code(),
              grpc::StatusCode::UNAVAILABLE);
    const auto& metadata = context.GetServerTrailingMetadata();
    ASSERT_EQ(metadata.count(kNoAnswerMetadata), 1u);
    EXPECT_EQ(metadata.find(kNoAnswerMetadata)->second, kNotBegun);
  }
  PlayedService former;
  PlayedServer server;
  StartServer(&server, &former);
  former.Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, "does not lead"),
              kNotBegun);
  follower.leader().Set({server.address(), "of-an-earlier-leadership"});
  v1::Job job;
  auto status = Create(follower, "third", &job);
  const absl::Time deadline = absl::Now() + kBound;
  while (former.calls().empty()) {
    ASSERT_LT(absl::Now(), deadline);
    absl::SleepFor(absl::Milliseconds(1));
  }
  StartLeader();
  follower.leader().Set(Hint());
  EXPECT_TRUE(status.get().ok());
  EXPECT_EQ(job.spec().display_name(), "third");
  EXPECT_THAT(service_.calls(), ElementsAre("third"));
}

TEST_F(LeaderForwarderTest, AWithheldAnswerIsAskedForAgainUnlessItChanges) {
  StartLeader();
  const grpc::Status late(grpc::StatusCode::UNAVAILABLE, "no longer leads");
  service_.Fail(late, kWithheld);
  Follower follower;
  follower.leader().Set(Hint());
  auto read = ListWorkers(follower);
  follower.AwaitHeld(1);
  // What may have been done is not done twice.
  EXPECT_EQ(Create(follower, "once").get().error_code(),
            grpc::StatusCode::UNAVAILABLE);
  PlayedService next;
  PlayedServer leader;
  StartServer(&leader, &next);
  follower.leader().Set({leader.address(), "of-the-next-leadership"});
  EXPECT_TRUE(read.get().ok());
  EXPECT_THAT(next.calls(), ElementsAre("workers"));
}

TEST_F(LeaderForwarderTest, ALeadersOwnErrorIsAnAnswer) {
  StartLeader();
  service_.Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the worker left"),
                "");
  Follower follower;
  follower.leader().Set(Hint());
  EXPECT_EQ(ListWorkers(follower).get().error_message(), "the worker left");
  EXPECT_THAT(service_.calls(), ElementsAre("workers"));
}

TEST_F(LeaderForwarderTest, PatienceEnds) {
  LeaderForwarder::Options options;
  options.patience = absl::Milliseconds(30);
  Follower follower(options);
  const grpc::Status status = Create(follower, "never").get();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("no coordinator leads"));
  // Nobody listens there.
  const HeldPort port;
  leader_.port = port.port();
  follower.leader().Set(Hint());
  EXPECT_THAT(Create(follower, "never").get().error_message(),
              HasSubstr(leader_.address()));
  EXPECT_THAT(service_.calls(), IsEmpty());
}

TEST_F(LeaderForwarderTest, ACallerWhoLeavesIsForgotten) {
  Follower follower;
  const auto stub = follower.Stub();
  grpc::ClientContext context;
  auto status = std::async(std::launch::async, [&] {
    v1::Job unused;
    return stub->CreateJob(&context, v1::CreateJobRequest(), &unused);
  });
  follower.AwaitHeld(1);
  context.TryCancel();
  EXPECT_EQ(status.get().error_code(), grpc::StatusCode::CANCELLED);
  follower.AwaitHeld(0);
}

TEST_F(LeaderForwarderTest, StoppingEndsWhatIsHeld) {
  LeaderForwarder::Options options;
  options.max_held = 2;
  Follower follower(options);
  std::vector<std::future<grpc::Status>> calls;
  calls.push_back(Create(follower, "a"));
  calls.push_back(ListWorkers(follower));
  follower.AwaitHeld(2);
  // There is a limit.
  EXPECT_EQ(ListWorkers(follower).get().error_code(),
            grpc::StatusCode::UNAVAILABLE);
  follower.forwarder().Stop();
  calls.push_back(ListWorkers(follower));
  for (auto& call : calls) {
    EXPECT_EQ(call.get().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
}

}  // namespace
}  // namespace comera::server
