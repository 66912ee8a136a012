// Queries that hold the event loop for long, over real gRPC: each test is an
// attempt to keep everybody else waiting, and fails.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "comera/rpc/error_details.pb.h"
#include "comera/v1/model_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "tests/server/daemon/security_fixture.h"

namespace comera::server {
namespace {

// Holds the event loop up until Release(), or the end of this.
class BusyLoop {
 public:
  explicit BusyLoop(EventLoop* loop) : loop_(loop) {
    loop_->Post([this] {
      reached_.Notify();
      go_on_.WaitForNotification();
    });
    reached_.WaitForNotification();
  }
  ~BusyLoop() {
    if (!go_on_.HasBeenNotified()) Release();
  }
  void Release() {
    go_on_.Notify();
    loop_->Run([] {});
  }

 private:
  EventLoop* const loop_;
  absl::Notification reached_, go_on_;
};

// Statuses of calls, in the order in which the calls end.
class Ends {
 public:
  void Add(const grpc::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    ends_.push_back(status);
    ended_.notify_all();
  }
  grpc::Status Wait(size_t index) {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [&] { return ends_.size() > index; });
    return ends_[index];
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<grpc::Status> ends_;
};

bool SaysWhenToComeBack(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return false;
  google::rpc::RetryInfo retry;
  for (const auto& detail : details.details()) {
    if (detail.UnpackTo(&retry)) return true;
  }
  return false;
}

class SlowQueriesTest : public SecurityTest {
 protected:
  SlowQueriesTest() {
    root_ = Token("", "root", v1::ROLE_ADMIN);
    alice_ = Token(root_, "alice", v1::ROLE_USER);
    bob_ =
        Token(root_, "bob", v1::ROLE_UNSPECIFIED, {{"other", v1::ROLE_USER}});
    EXPECT_EQ(CreateAs(alice_, "default", &job_), Code::OK);
  }

  grpc::Status ExplainAs(const std::string& secret, const std::string& name) {
    v1::ExplainJobRequest request;
    request.set_name(name);
    v1::JobExplanation explanation;
    return training_->ExplainJob(As(secret).get(), request, &explanation);
  }

  grpc::Status TryAs(const std::string& secret) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = TestSpec(1);
    request.set_validate_only(true);
    v1::Job job;
    return training_->CreateJob(As(secret).get(), request, &job);
  }

  grpc::Status DeleteAliasAs(const std::string& secret) {
    v1::DeleteModelAliasRequest request;
    request.set_name("models/unknown@alias");
    v1::DeleteModelAliasResponse response;
    return v1::ModelService::NewStub(channel_)->DeleteModelAlias(
        As(secret).get(), request, &response);
  }

  std::string root_, alice_, bob_, job_;
};

TEST_F(SlowQueriesTest, PermissionsAreCheckedBeforeTheLoopIsAsked) {
  const std::string viewer = Token(root_, "vera", v1::ROLE_VIEWER);
  const std::string worker =
      Token(root_, "w1", v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  BusyLoop busy(&server_->host().loop());
  EXPECT_EQ(ExplainAs(bob_, job_).error_code(), Code::PERMISSION_DENIED);
  EXPECT_EQ(ExplainAs(worker, job_).error_code(), Code::PERMISSION_DENIED);
  EXPECT_EQ(ExplainAs(alice_, "jobs/none").error_code(), Code::NOT_FOUND);
  EXPECT_EQ(TryAs(viewer).error_code(), Code::PERMISSION_DENIED);
  EXPECT_EQ(DeleteAliasAs(viewer).error_code(), Code::PERMISSION_DENIED);
  EXPECT_EQ(DeleteAliasAs(worker).error_code(), Code::PERMISSION_DENIED);
  busy.Release();
  EXPECT_EQ(DeleteAliasAs(bob_).error_code(), Code::NOT_FOUND);
}

// The attack: each explanation and each dry run is a pass of the scheduler, and
// 2,000 of them a second left no time for anything else.
TEST_F(SlowQueriesTest, AUserHasOneExplanationOrDryRunAtATime) {
  Ends ends;
  BusyLoop busy(&server_->host().loop());
  std::thread explain([&] { ends.Add(ExplainAs(alice_, job_)); });
  std::thread dry_run([&] { ends.Add(TryAs(alice_)); });
  const grpc::Status refused = ends.Wait(0);
  EXPECT_EQ(refused.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(SaysWhenToComeBack(refused));
  busy.Release();
  EXPECT_EQ(ends.Wait(1).error_code(), Code::OK);
  explain.join();
  dry_run.join();
  // Whoever waits for each answer is never refused.
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ExplainAs(alice_, job_).error_code(), Code::OK);
    EXPECT_EQ(TryAs(alice_).error_code(), Code::OK);
  }
  // Nor does one that fails keep its place.
  for (int i = 0; i < 2; ++i) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = TestSpec(1);
    request.mutable_spec()->mutable_data()->mutable_code_directory()->set_roots(
        0, "datasets/none");
    request.set_validate_only(true);
    v1::Job job;
    const grpc::Status status =
        training_->CreateJob(As(alice_).get(), request, &job);
    EXPECT_NE(status.error_code(), Code::OK);
    EXPECT_NE(status.error_code(), Code::RESOURCE_EXHAUSTED);
  }
}

TEST_F(SlowQueriesTest, ModelsAreListedBesideTheLoop) {
  BusyLoop busy(&server_->host().loop());
  v1::ListModelsResponse response;
  const grpc::Status status = v1::ModelService::NewStub(channel_)->ListModels(
      As(alice_).get(), v1::ListModelsRequest(), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace comera::server
