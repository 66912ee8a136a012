// A coordinator tells a receiver of changes of jobs over HTTP, also of those
// that it could not tell before it was restarted.

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/http/http_server.h"
#include "common/json.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/webhook/webhook.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WebhookServerTest : public ServerFixture {
 protected:
  WebhookServerTest() {
    HttpServer::Options options;
    options.listen = "127.0.0.1:0";
    auto receiver = HttpServer::Start(
        options,
        [this](std::shared_ptr<HttpExchange> exchange) { Take(*exchange); });
    EXPECT_OK(receiver);
    receiver_ = *std::move(receiver);
    options_.webhook.url = "http://" + receiver_->address() + "/hook";
    options_.webhook.key = "0123456789abcdef01234567";
    options_.webhook.min_backoff = options_.webhook.max_backoff =
        absl::Milliseconds(20);
    RestartServer();
  }
  ~WebhookServerTest() override { StopServer(); }

  void Take(HttpExchange& exchange) {
    const HttpRequest& request = exchange.request();
    const std::lock_guard<std::mutex> lock(mutex_);
    ++requests_;
    changed_.notify_all();
    if (code_ != 200) return exchange.Send(MakeResponse(code_, "", ""));
    const StateNote note = {*FindHeader(request.headers, "webhook-id"),
                            request.body, ""};
    const std::string now = *FindHeader(request.headers, "webhook-timestamp");
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/hook");
    EXPECT_EQ(*FindHeader(request.headers, "content-type"), "application/json");
    EXPECT_EQ(*FindHeader(request.headers, "webhook-signature"),
              SignNote(options_.webhook.key, note, std::stoll(now)));
    const nlohmann::json data = ParseJson(request.body)["data"];
    states_.push_back(data["job"].get<std::string>() + " " +
                      data["state"].get<std::string>());
    exchange.Send(MakeResponse(200, "text/plain", "ok"));
  }

  template <typename Condition>
  void Await(Condition condition) {
    std::unique_lock<std::mutex> lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), condition));
  }

  size_t CountKept() {
    std::promise<size_t> count;
    server_->host().Read([&](JobStore* store) {
      count.set_value(store->LoadDocuments(Webhook::kKind)->size());
    });
    return count.get_future().get();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int code_ = 200, requests_ = 0;
  std::vector<std::string> states_;
  std::unique_ptr<HttpServer> receiver_;
};

TEST_F(WebhookServerTest, EachChangeIsToldOnceAndThenForgotten) {
  const std::string job = Create(TestSpec(1)).name();
  Cancel(job);
  Await([&] { return states_.size() == 2; });
  EXPECT_THAT(states_, ElementsAre(job + " QUEUED", job + " CANCELLED"));
  // It is forgotten just after the answer; the test's time limit ends the wait.
  while (CountKept() > 0) {
  }
}

TEST_F(WebhookServerTest, ARestartLosesNothingThatTheReceiverDidNotTake) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    code_ = 503;
  }
  const std::string job = Create(TestSpec(1)).name();
  Await([&] { return requests_ > 1; });
  EXPECT_EQ(CountKept(), 1);
  RestartServer();
  Cancel(job);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_THAT(states_, IsEmpty());
    code_ = 200;
  }
  Await([&] { return states_.size() == 2; });
  EXPECT_THAT(states_, ElementsAre(job + " QUEUED", job + " CANCELLED"));
}

}  // namespace
}  // namespace comera::server
