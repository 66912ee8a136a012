// Tests that unary calls are refused and answered exactly once.
#include "server/auth/unary_call.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "comera/v1/queue_service.pb.h"
#include "common/status_macros.h"
#include "grpcpp/test/default_reactor_test_peer.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

class FakeCaller : public Caller {
 public:
  const std::string& user() const override { return user_; }
  absl::Status Check(Permission permission,
                     const std::string& queue) const override {
    if (permission == Permission::kView && queue == "shown") {
      return absl::OkStatus();
    }
    return absl::PermissionDeniedError("not yours");
  }
  const std::string& worker() const override { return worker_; }
  absl::Status CheckWorker(const std::string&) const override {
    return absl::PermissionDeniedError("no worker");
  }

 private:
  const std::string user_ = "ada";
  const std::string worker_;
};

class FakeAccess : public AccessControl {
 public:
  absl::StatusOr<std::unique_ptr<Caller>> Identify(
      const grpc::CallbackServerContext& context) override {
    if (!known) return absl::UnauthenticatedError("who are you?");
    return std::make_unique<FakeCaller>();
  }

  bool known = true;
};

class UnaryCallTest : public testing::Test {
 protected:
  using Handler = std::function<absl::Status(const UnaryCall<v1::Queue>&)>;

  void Serve(const Handler& handler) {
    ServeUnary(&access_, &context_, &response_, handler);
  }

  FakeAccess access_;
  grpc::CallbackServerContext context_;
  grpc::testing::DefaultReactorTestPeer peer_{&context_};
  v1::Queue response_;
};

TEST_F(UnaryCallTest, AnswersWithTheValueOfTheCallback) {
  std::function<void(absl::StatusOr<v1::Queue>)> later;
  Serve([&](const UnaryCall<v1::Queue>& call) {
    later = call;
    return absl::OkStatus();
  });
  EXPECT_FALSE(peer_.test_status_set());
  v1::Queue queue;
  queue.set_name("queues/a");
  later(queue);
  ASSERT_TRUE(peer_.test_status_set());
  EXPECT_TRUE(peer_.test_status().ok());
  EXPECT_EQ(response_.name(), "queues/a");
}

TEST_F(UnaryCallTest, AnErrorOfTheCallbackLeavesTheResponseAlone) {
  Serve([](const UnaryCall<v1::Queue>& call) {
    call(absl::NotFoundError("no queue"));
    return absl::OkStatus();
  });
  EXPECT_EQ(peer_.test_status().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(response_.ByteSizeLong(), 0u);
}

TEST_F(UnaryCallTest, AnErrorOfTheHandlerEndsTheCall) {
  Serve([](const UnaryCall<v1::Queue>& call) {
    RETURN_IF_ERROR(call.Check(Permission::kView, "shown"));
    RETURN_IF_ERROR(call.Check(Permission::kUse, "shown"));
    ADD_FAILURE() << "the caller may not use the queue";
    return absl::OkStatus();
  });
  EXPECT_EQ(peer_.test_status().error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(UnaryCallTest, AnUnknownCallerDoesNotReachTheHandler) {
  access_.known = false;
  Serve([](const UnaryCall<v1::Queue>&) {
    ADD_FAILURE() << "the caller is unknown";
    return absl::OkStatus();
  });
  EXPECT_EQ(peer_.test_status().error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(UnaryCallTest, TwoAnswersAreABrokenInvariant) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(Serve([](const UnaryCall<v1::Queue>& call) {
                 call.Finish(absl::OkStatus());
                 return absl::InternalError("again");
               }),
               "answered twice");
}

}  // namespace
}  // namespace comera::server
