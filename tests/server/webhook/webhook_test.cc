// Notes of changed states: what they say, and that each is delivered, in order,
// or kept.
#include "server/webhook/webhook.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/http/http_message.h"
#include "common/json.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/proto_time.h"
#include "tests/server/manual_clock.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

v1::JobEvent Change(v1::JobState state, int64_t sequence) {
  v1::JobEvent event;
  event.set_job("jobs/a");
  event.set_sequence(sequence);
  event.set_attempt(2);
  *event.mutable_time() = ToTimestamp(absl::FromUnixSeconds(1000000));
  event.mutable_state_change()->set_state(state);
  event.mutable_state_change()->set_reason("because");
  return event;
}

v1::Job TestJob() {
  v1::Job job;
  job.set_name("jobs/a");
  job.set_user("ada");
  job.mutable_spec()->set_display_name("first");
  job.mutable_spec()->set_queue("vision");
  return job;
}

TEST(StateNoteTest, SaysWhatHappenedToWhichJob) {
  v1::JobEvent event = Change(v1::FAILED, 17);
  v1::Failure& failure = *event.mutable_state_change()->mutable_failure();
  failure.set_failure_class(v1::OUT_OF_MEMORY);
  failure.set_message("it needs \"more\"");
  const StateNote note = MakeNote(event, TestJob());
  EXPECT_EQ(note.id, "jobs/a/000000000017");
  EXPECT_EQ(note.body,
            R"({"type":"job.state_changed","timestamp":"1970-01-12T13:46:40)"
            R"(+00:00","data":{"job":"jobs/a","displayName":"first","user":)"
            R"("ada","queue":"vision","attempt":2,"sequence":17,"state":)"
            R"("FAILED","reason":"because","failure":{"failureClass":)"
            R"("OUT_OF_MEMORY","message":"it needs \"more\""}}})");
  v1::Job swept = TestJob();
  swept.set_sweep("sweeps/b");
  event = Change(v1::SUCCEEDED, 18);
  event.mutable_state_change()->set_outcome(v1::TARGET_MET);
  const nlohmann::json data = ParseJson(MakeNote(event, swept).body)["data"];
  EXPECT_EQ(data["sweep"], "sweeps/b");
  EXPECT_EQ(data["outcome"], "TARGET_MET");
  EXPECT_FALSE(data.contains("failure"));
}

// The example of the libraries of Standard Webhooks.
TEST(StateNoteTest, SignaturesAreThoseOfTheSpecification) {
  const auto key = ParseWebhookKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
  ASSERT_OK(key);
  EXPECT_EQ(
      SignNote(*key,
               {"msg_p5jXN8AQM9LWM0D4loKWxJek", R"({"test": 2432232314})", ""},
               1614265330),
      "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

TEST(WebhookFlagsTest, WeakKeysAndOpenUrlsAreRefused) {
  EXPECT_EQ(*ParseWebhookKey("  twenty-four bytes, and so \n"),
            "twenty-four bytes, and so");
  for (const char* text : {"", "short", "whsec_c2hvcnQ=", "whsec_?"}) {
    EXPECT_THAT(ParseWebhookKey(text).status(),
                StatusIs(Code::kInvalidArgument))
        << text;
  }
  for (const char* url :
       {"https://example.com/a?b=c", "https://example.com:8443",
        "http://127.0.0.1:80/a", "http://localhost", "http://[::1]:1/"}) {
    EXPECT_OK(CheckWebhookUrl(url)) << url;
  }
  for (const char* url :
       {"", "example.com", "ftp://example.com", "https://", "https:///a",
        "http://example.com/a", "http://127.0.0.1.example.com/",
        "https://ada:secret@example.com/", "http://127.0.0.1@example.com"}) {
    EXPECT_THAT(CheckWebhookUrl(url), StatusIs(Code::kInvalidArgument)) << url;
  }
}

class WebhookTest : public ::testing::Test {
 protected:
  WebhookTest() {
    options_.url = "https://example.com/hook";
    options_.key = "0123456789abcdef01234567";
    options_.min_backoff = options_.max_backoff = absl::Milliseconds(1);
  }

  void Start(const std::vector<Document>& left = {}) {
    webhook_ = std::make_unique<Webhook>(
        options_, &clock_, [this](const WebRequest& request) {
          const std::lock_guard<std::mutex> lock(mutex_);
          ids_.push_back(*FindHeader(request.headers, "webhook-id"));
          requests_.push_back(request);
          const absl::StatusOr<WebAnswer> answer = answer_(ids_.size());
          changed_.notify_all();
          return answer;
        });
    webhook_->Start(left, [this](const std::string& id) {
      const std::lock_guard<std::mutex> lock(mutex_);
      forgotten_.push_back(id);
      changed_.notify_all();
    });
  }

  static Effects EffectsOf(std::vector<v1::JobEvent> events,
                           const std::string& user) {
    Effects effects;
    v1::Job& job = *effects.records["jobs/a"].mutable_job();
    job = TestJob();
    job.set_user(user);
    effects.events = std::move(events);
    return effects;
  }

  // Does what the host does; returns what the batch keeps.
  std::vector<Document> Commit(std::vector<v1::JobEvent> events,
                               const std::string& user = "ada") {
    const Effects effects = EffectsOf(std::move(events), user);
    StoreBatch batch;
    webhook_->AddTo(effects, &batch);
    webhook_->OnCommitted(effects);
    return batch.documents;
  }

  template <typename Condition>
  void Await(Condition condition) {
    std::unique_lock<std::mutex> lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), condition));
  }

  static absl::StatusOr<WebAnswer> Answer(int code) {
    return WebAnswer{code, ""};
  }

  ManualClock clock_;
  Webhook::Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<absl::StatusOr<WebAnswer>(size_t number)> answer_ = [](size_t) {
    return Answer(204);
  };
  std::vector<std::string> ids_, forgotten_;
  std::vector<WebRequest> requests_;
  // Last, because its thread uses the others.
  std::unique_ptr<Webhook> webhook_;
};

TEST_F(WebhookTest, ChangesAreDeliveredSignedAndInOrder) {
  Start();
  v1::JobEvent metrics;
  metrics.set_job("jobs/a");
  metrics.mutable_metrics()->set_step(1);
  const auto kept =
      Commit({Change(v1::QUEUED, 1), metrics, Change(v1::STARTING, 2)});
  ASSERT_THAT(kept, SizeIs(2));
  EXPECT_EQ(kept[0].kind, Webhook::kKind);
  EXPECT_EQ(kept[0].name, "jobs/a/000000000001");
  Commit({Change(v1::RUNNING, 3)});
  Await([&] { return forgotten_.size() == 3; });
  EXPECT_THAT(forgotten_,
              ElementsAre("jobs/a/000000000001", "jobs/a/000000000002",
                          "jobs/a/000000000003"));
  EXPECT_EQ(ids_, forgotten_);
  const WebRequest& request = requests_[0];
  EXPECT_EQ(request.url, options_.url);
  EXPECT_FALSE(request.plain_http);
  EXPECT_EQ(request.body, *kept[0].body);
  const int64_t seconds = absl::ToUnixSeconds(clock_.Now());
  EXPECT_EQ(*FindHeader(request.headers, "webhook-timestamp"),
            absl::StrCat(seconds));
  EXPECT_EQ(*FindHeader(request.headers, "webhook-signature"),
            SignNote(options_.key, {kept[0].name, request.body, ""}, seconds));
  EXPECT_EQ(webhook_->figures().delivered, 3);
  EXPECT_EQ(webhook_->figures().waiting, 0);
}

TEST_F(WebhookTest, WhatFailsIsSentAgainBeforeLaterOnes) {
  answer_ = [](size_t number) -> absl::StatusOr<WebAnswer> {
    if (number == 1) return absl::UnavailableError("no connection");
    return Answer(number == 2 ? 503 : number == 3 ? 404 : 200);
  };
  Start();
  Commit({Change(v1::QUEUED, 1), Change(v1::STARTING, 2)});
  Await([&] { return forgotten_.size() == 2; });
  EXPECT_THAT(ids_, ElementsAre("jobs/a/000000000001", "jobs/a/000000000001",
                                "jobs/a/000000000001", "jobs/a/000000000001",
                                "jobs/a/000000000002"));
  EXPECT_EQ(webhook_->figures().given_up, 0);
}

TEST_F(WebhookTest, ARefusedNoteHoldsUpNoOthers) {
  answer_ = [](size_t number) { return Answer(number == 1 ? 422 : 200); };
  Start();
  Commit({Change(v1::QUEUED, 1), Change(v1::STARTING, 2)});
  Await([&] { return forgotten_.size() == 2; });
  EXPECT_THAT(ids_, SizeIs(2));
  EXPECT_EQ(webhook_->figures().given_up, 1);
  EXPECT_EQ(webhook_->figures().delivered, 1);
}

TEST_F(WebhookTest, ANoteThatNobodyTakesIsGivenUp) {
  answer_ = [](size_t) { return Answer(500); };
  options_.keep = absl::ZeroDuration();
  Start();
  Commit({Change(v1::QUEUED, 1)});
  Await([&] { return forgotten_.size() == 1; });
  EXPECT_EQ(webhook_->figures().given_up, 1);
}

TEST_F(WebhookTest, WhatAnEarlierCoordinatorLeftComesFirst) {
  const StateNote left = MakeNote(Change(v1::QUEUED, 1), TestJob());
  options_.states = {v1::SUCCEEDED};
  Start({{Webhook::kKind, left.id, left.body}});
  EXPECT_THAT(Commit({Change(v1::RUNNING, 2)}), IsEmpty());
  EXPECT_THAT(Commit({Change(v1::SUCCEEDED, 3)}), SizeIs(1));
  Await([&] { return forgotten_.size() == 2; });
  EXPECT_THAT(ids_, ElementsAre(left.id, "jobs/a/000000000003"));
}

TEST_F(WebhookTest, WhatWasLeftComesInTheOrderOfItsTimes) {
  v1::JobEvent first = Change(v1::QUEUED, 1), second = Change(v1::QUEUED, 1);
  first.set_job("jobs/z");
  second.set_job("jobs/b");
  *second.mutable_time() =
      ToTimestamp(absl::FromUnixSeconds(1000000) + absl::Milliseconds(1));
  std::vector<Document> left;
  for (const v1::JobEvent& event : {second, first}) {
    const StateNote note = MakeNote(event, TestJob());
    left.push_back({Webhook::kKind, note.id, note.body});
  }
  left.push_back({Webhook::kKind, "jobs/c/1", "of another version"});
  Start(left);
  Await([&] { return forgotten_.size() == 3; });
  EXPECT_THAT(ids_, ElementsAre("jobs/c/1", "jobs/z/000000000001",
                                "jobs/b/000000000001"));
}

TEST_F(WebhookTest, NothingIsToldBeforeItIsDurable) {
  Start();
  const Effects effects = EffectsOf({Change(v1::QUEUED, 1)}, "ada");
  StoreBatch batch;
  webhook_->AddTo(effects, &batch);
  EXPECT_THAT(batch.documents, SizeIs(1));
  EXPECT_EQ(webhook_->figures().waiting, 0);
  webhook_->Stop();
  webhook_->OnCommitted(effects);
  EXPECT_EQ(webhook_->figures().waiting, 1);
  EXPECT_THAT(ids_, IsEmpty());
}

TEST_F(WebhookTest, ASilentReceiverTakesNoMoreThanTheBound) {
  answer_ = [](size_t) { return Answer(503); };
  // A note has more than 200 bytes, and less than 300.
  options_.max_bytes = 300;
  Start();
  EXPECT_THAT(Commit({Change(v1::QUEUED, 1), Change(v1::STARTING, 2),
                      Change(v1::RUNNING, 3)}),
              SizeIs(2));
  EXPECT_EQ(webhook_->figures().waiting, 2);
  EXPECT_EQ(webhook_->figures().given_up, 1);
}

TEST_F(WebhookTest, OneUserDoesNotSilenceItForOthers) {
  const StateNote left = MakeNote(Change(v1::QUEUED, 1), TestJob());
  // The two of ada fill her share.
  options_.max_user_bytes = left.body.size() + 1;
  std::atomic<int> code{503};
  answer_ = [&](size_t) { return Answer(code); };
  Start({{Webhook::kKind, left.id, left.body}});
  EXPECT_THAT(Commit({Change(v1::STARTING, 2), Change(v1::RUNNING, 3)}),
              SizeIs(1));
  EXPECT_THAT(Commit({Change(v1::STARTING, 4)}, "bob"), SizeIs(1));
  EXPECT_EQ(webhook_->figures().given_up, 1);
  // What is taken makes room.
  code = 200;
  Await([&] { return forgotten_.size() == 3; });
  EXPECT_THAT(Commit({Change(v1::SUCCEEDED, 5)}), SizeIs(1));
}

}  // namespace
}  // namespace comera::server
