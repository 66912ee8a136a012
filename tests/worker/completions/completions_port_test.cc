// Speaks HTTP with the port over sockets, with texts that the test makes up.

#include "worker/completions/completions_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/event.h"
#include "common/json.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

v1::GenerateResponse Piece(const std::string& text) {
  v1::GenerateResponse piece;
  piece.set_text(text);
  return piece;
}

v1::GenerateResponse Last(const std::string& text,
                          v1::GenerateResponse::Finish finish) {
  v1::GenerateResponse piece = Piece(text);
  piece.set_finish(finish);
  piece.set_prompt_tokens(3);
  piece.set_generated_tokens(4);
  return piece;
}

// Callers with the ticket `comera-ticket_good`, or without one, may use all models.
class FakeTexts : public TextModels {
 public:
  absl::Status Generate(
      const v1::GenerateRequest& request, const std::string& ticket,
      absl::Time deadline, const std::function<bool()>& gone,
      const std::function<bool(const v1::GenerateResponse&)>& write) override {
    if (!ticket.empty() && ticket != "comera-ticket_good") {
      return absl::UnauthenticatedError("who are you?");
    }
    asked = request;
    asked_until = deadline;
    if (waits) return AwaitLeaving(gone);
    for (const v1::GenerateResponse& piece : pieces) {
      if (gone() || !write(piece)) {
        left->Notify();
        return absl::CancelledError("the caller has gone");
      }
    }
    return status;
  }
  absl::StatusOr<std::vector<ListedModel>> List(
      const std::string& ticket, absl::Time,
      const std::function<bool()>& gone) override {
    if (ticket != "comera-ticket_good") return absl::UnauthenticatedError("who are you?");
    if (waits) return AwaitLeaving(gone);
    return std::vector<ListedModel>{
        {"jobs/a/models/m", "alice", absl::FromUnixSeconds(1700000000), true}};
  }

  absl::Status AwaitLeaving(const std::function<bool()>& gone) {
    // A caller who is there is not seen to leave.
    EXPECT_FALSE(gone());
    began->Notify();
    while (!gone()) absl::SleepFor(absl::Milliseconds(1));
    left->Notify();
    return absl::CancelledError("the caller has gone");
  }

  v1::GenerateRequest asked;
  absl::Time asked_until;
  // Whether nothing is said until the caller leaves.
  bool waits = false;
  std::vector<v1::GenerateResponse> pieces;
  absl::Status status;
  std::unique_ptr<Event> began, left;
};

// Says nothing until the caller leaves.
class SilentTexts : public TextModels {
 public:
  explicit SilentTexts(int awaited) : missing_(awaited) {}

  // Returns once the awaited number of calls has begun.
  void AwaitCalls() { running_.Wait(); }

  absl::Status Generate(
      const v1::GenerateRequest&, const std::string&, absl::Time,
      const std::function<bool()>& gone,
      const std::function<bool(const v1::GenerateResponse&)>&) override {
    return List("", absl::Now(), gone).status();
  }
  absl::StatusOr<std::vector<ListedModel>> List(
      const std::string&, absl::Time,
      const std::function<bool()>& gone) override {
    if (missing_.fetch_sub(1) == 1) running_.Notify();
    while (!gone()) absl::SleepFor(absl::Milliseconds(1));
    return absl::CancelledError("the caller has gone");
  }

 private:
  std::atomic<int> missing_;
  Event running_;
};

CompletionsPort::Options OptionsOf(const std::string& listen,
                                   bool insecure = false) {
  CompletionsPort::Options options;
  options.listen = listen;
  options.insecure = insecure;
  return options;
}

// The body that chunks make up; nothing if the last is missing.
std::string Joined(absl::string_view chunks) {
  std::string body;
  while (true) {
    const size_t line = chunks.find("\r\n");
    size_t size = 0;
    if (line == absl::string_view::npos ||
        !absl::SimpleHexAtoi(chunks.substr(0, line), &size) ||
        chunks.size() < line + 2 + size + 2) {
      return "";
    }
    if (size == 0) return body;
    absl::StrAppend(&body, chunks.substr(line + 2, size));
    chunks.remove_prefix(line + 2 + size + 2);
  }
}

struct Answer {
  int status = 0;
  std::string head, body;
  Json json() const { return ParseJson(body); }
};

class CompletionsPortTest : public ::testing::Test {
 protected:
  // One port for all tests, whose calls it has to tell apart.
  static void SetUpTestSuite() {
    texts_ = new FakeTexts;
    auto port = CompletionsPort::Start(OptionsOf("127.0.0.1:0"), texts_);
    ASSERT_OK(port);
    port_ = port->release();
  }
  static void TearDownTestSuite() {
    delete port_;
    delete texts_;
  }
  void SetUp() override {
    texts_->pieces = {Piece("Hello"),
                      Last(" world", v1::GenerateResponse::LENGTH)};
    texts_->status = absl::OkStatus();
    texts_->waits = false;
    texts_->began = std::make_unique<Event>();
    texts_->left = std::make_unique<Event>();
  }

  int Connect(const CompletionsPort& port = *port_) {
    const std::pair<std::string, std::string> address =
        absl::StrSplit(port.address(), ':');
    int number = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.second, &number));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(number));
    inet_pton(AF_INET, address.first.c_str(), &to.sin_addr);
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return socket;
  }

  static void Write(int socket, const std::string& text) {
    size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t put =
          send(socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (put <= 0) return;
      sent += static_cast<size_t>(put);
    }
  }

  // Sends a request, the last of its connection, and reads until that ends.
  Answer Exchange(const std::string& request,
                  const CompletionsPort& port = *port_) {
    const int socket = Connect(port);
    const size_t line = request.find("\r\n") + 2;
    Write(socket, absl::StrCat(request.substr(0, line), "Connection: close\r\n",
                               request.substr(line)));
    std::string all;
    char buffer[4096];
    ssize_t got;
    while ((got = read(socket, buffer, sizeof(buffer))) > 0) {
      all.append(buffer, static_cast<size_t>(got));
    }
    close(socket);
    Answer answer;
    const size_t end = all.find("\r\n\r\n");
    if (end == std::string::npos) return answer;
    answer.head = all.substr(0, end);
    answer.body = all.substr(end + 4);
    if (absl::StrContains(answer.head, "Transfer-Encoding: chunked")) {
      answer.body = Joined(answer.body);
    }
    EXPECT_THAT(answer.head, StartsWith("HTTP/1.1 "));
    EXPECT_TRUE(absl::SimpleAtoi(answer.head.substr(9, 3), &answer.status));
    return answer;
  }

  static std::string PostOf(
      const std::string& body,
      const std::string& headers = "Host: localhost:1\r\n",
      const std::string& type = "application/json") {
    return absl::StrCat("POST /v1/completions HTTP/1.1\r\n", headers,
                        "Content-Type: ", type,
                        "\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
  }
  Answer Post(const std::string& body,
              const std::string& headers = "Host: localhost:1\r\n",
              const std::string& type = "application/json") {
    return Exchange(PostOf(body, headers, type));
  }

  // Breaks a connection off without the usual farewell.
  static void Reset(int socket) {
    const linger none = {1, 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    close(socket);
  }

  // Returns the data of a stream's events.
  static std::vector<std::string> Events(const Answer& answer) {
    std::vector<std::string> events;
    for (absl::string_view line : absl::StrSplit(answer.body, "\n\n")) {
      if (absl::ConsumePrefix(&line, "data: ")) events.emplace_back(line);
    }
    return events;
  }

  static FakeTexts* texts_;
  static CompletionsPort* port_;
};

FakeTexts* CompletionsPortTest::texts_ = nullptr;
CompletionsPort* CompletionsPortTest::port_ = nullptr;

constexpr char kPlain[] = R"({"model": "jobs/a/models/m", "prompt": "Say:")";

TEST_F(CompletionsPortTest, AWholeTextHasOpenAisShape) {
  const Answer answer = Post(absl::StrCat(kPlain, R"(, "seed": 5})"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head, HasSubstr("Content-Type: application/json"));
  Json json = answer.json();
  EXPECT_THAT(json["id"].get<std::string>(), StartsWith("cmpl-"));
  EXPECT_GT(json["created"].get<int64_t>(), 1600000000);
  json.erase("id");
  json.erase("created");
  EXPECT_EQ(json, ParseJson(R"({
    "object": "text_completion", "model": "jobs/a/models/m",
    "choices": [{"text": "Hello world", "index": 0, "logprobs": null,
                 "finish_reason": "length"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
  })"));
  EXPECT_EQ(texts_->asked.prompt(), "Say:");
  EXPECT_EQ(texts_->asked.seed(), 5u);
  EXPECT_GT(texts_->asked_until, absl::Now() + absl::Minutes(4));
  EXPECT_LT(texts_->asked_until, absl::Now() + absl::Minutes(6));
}

TEST_F(CompletionsPortTest, TheEndHasAReasonAndThePromptIsEchoed) {
  for (const auto finish :
       {v1::GenerateResponse::STOP, v1::GenerateResponse::END_OF_TEXT}) {
    texts_->pieces = {Last("x", finish)};
    const Json json = Post(absl::StrCat(kPlain, R"(, "echo": true})")).json();
    EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(json["choices"][0]["text"], "Say:x");
  }
}

TEST_F(CompletionsPortTest, AStreamEndsWithDone) {
  const Answer answer =
      Post(absl::StrCat(kPlain, R"(, "stream": true, "echo": true,
                 "stream_options": {"include_usage": true}})"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head, HasSubstr("Content-Type: text/event-stream"));
  const std::vector<std::string> events = Events(answer);
  ASSERT_EQ(events.size(), 4u);
  const Json first = ParseJson(events[0]);
  EXPECT_EQ(first["object"], "text_completion");
  EXPECT_EQ(first["choices"][0]["text"], "Say:Hello");
  EXPECT_TRUE(first["choices"][0]["finish_reason"].is_null());
  EXPECT_TRUE(first["usage"].is_null());
  const Json second = ParseJson(events[1]);
  EXPECT_EQ(second["choices"][0]["text"], " world");
  EXPECT_EQ(second["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(second["id"], first["id"]);
  const Json usage = ParseJson(events[2]);
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["total_tokens"], 7);
  EXPECT_EQ(events[3], "[DONE]");
  // Without the option nothing tells the tokens.
  const auto plain = Events(Post(absl::StrCat(kPlain, R"(, "stream": true})")));
  ASSERT_EQ(plain.size(), 3u);
  EXPECT_THAT(plain[0], Not(HasSubstr("usage")));
}

TEST_F(CompletionsPortTest, ErrorsHaveOpenAisShape) {
  const Answer answer = Post(absl::StrCat(kPlain, R"(, "n": 2})"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json(), ParseJson(R"({"error": {
    "message": "n: not supported; only 1 is possible",
    "type": "invalid_request_error", "param": "n", "code": null}})"));
  const std::pair<absl::Status, int> errors[] = {
      {absl::InvalidArgumentError("x"), 400},
      {absl::FailedPreconditionError("x"), 400},
      {absl::UnauthenticatedError("x"), 401},
      {absl::PermissionDeniedError("x"), 403},
      {absl::NotFoundError("x"), 404},
      {absl::ResourceExhaustedError("x"), 429},
      {absl::InternalError("x"), 500},
      {absl::UnavailableError("x"), 503},
      {absl::DeadlineExceededError("x"), 504}};
  texts_->pieces.clear();
  for (const auto& [status, code] : errors) {
    texts_->status = status;
    // A stream that has not begun has a status as well.
    for (const char* rest : {"}", R"(, "stream": true})"}) {
      const Answer refused = Post(absl::StrCat(kPlain, rest));
      EXPECT_EQ(refused.status, code) << status;
      EXPECT_EQ(refused.json()["error"]["message"], "x");
    }
  }
}

TEST_F(CompletionsPortTest, AStreamThatFailsInTheMiddleSaysSo) {
  texts_->pieces = {Piece("Hello")};
  texts_->status = absl::FailedPreconditionError("no room");
  const auto events =
      Events(Post(absl::StrCat(kPlain, R"(, "stream": true})")));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(ParseJson(events[1])["error"]["message"], "no room");
  // Half a text is no answer.
  EXPECT_EQ(Post(absl::StrCat(kPlain, "}")).status, 400);
}

TEST_F(CompletionsPortTest, ReadersThatLeaveEndTheirTexts) {
  texts_->pieces.assign(100000, Piece(std::string(1000, 'x')));
  const int socket = Connect();
  Write(socket, PostOf(absl::StrCat(kPlain, R"(, "stream": true})")));
  char byte;
  ASSERT_EQ(read(socket, &byte, 1), 1);
  close(socket);
  texts_->left->Wait();
}

// Whoever waits for a model to load or for a turn hears nothing for a while.
TEST_F(CompletionsPortTest, CallersThatLeaveBeforeAnyWordAreNoticed) {
  texts_->waits = true;
  const std::string list =
      "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
      "Authorization: Bearer comera-ticket_good\r\n\r\n";
  for (const std::string& request :
       {PostOf(absl::StrCat(kPlain, "}")),
        PostOf(absl::StrCat(kPlain, R"(, "stream": true})")), list}) {
    for (const bool reset : {false, true}) {
      texts_->began = std::make_unique<Event>();
      texts_->left = std::make_unique<Event>();
      const int socket = Connect();
      Write(socket, request);
      texts_->began->Wait();
      if (reset) {
        Reset(socket);
      } else {
        close(socket);
      }
      texts_->left->Wait();
    }
  }
}

// However slowly it is read, and though the model has much to say.
TEST_F(CompletionsPortTest, AStreamEndsSoonAfterItsTime) {
  CompletionsPort::Options options = OptionsOf("127.0.0.1:0");
  options.most_stream_time = -absl::Minutes(1);
  ASSERT_OK_AND_ASSIGN(const auto port,
                       CompletionsPort::Start(options, texts_));
  texts_->pieces = {Piece(std::string(1 << 20, 'x'))};
  const Answer answer =
      Exchange(PostOf(absl::StrCat(kPlain, R"(, "stream": true})")), *port);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "");  // broken off
  texts_->left->Wait();
}

TEST_F(CompletionsPortTest, TicketsAreCheckedAndTokensRefused) {
  const std::string body = absl::StrCat(kPlain, "}");
  EXPECT_EQ(Post(body, "Host: x.org\r\nAuthorization: Bearer comera-ticket_good\r\n").status,
            200);
  for (const char* headers :
       {"Host: localhost\r\nAuthorization: Bearer comera-ticket_bad\r\n",
        "Host: localhost\r\nAuthorization: Basic comera-ticket_good\r\n",
        "Host: localhost\r\nAuthorization: Bearer comera_admin\r\n",
        "Host: localhost\r\nAuthorization: Bearer comera-ticket_good\r\n"
        "Authorization: Bearer comera-ticket_good\r\n"}) {
    const Answer answer = Post(body, headers);
    EXPECT_EQ(answer.status, 401) << headers;
    EXPECT_EQ(answer.json()["error"]["code"], "invalid_api_key");
    EXPECT_THAT(answer.head, HasSubstr("WWW-Authenticate: Bearer"));
  }
}

// A browser on this machine is not to be used by the pages that it shows.
TEST_F(CompletionsPortTest, PagesOfOtherSitesMayNotCallWithoutATicket) {
  const std::string body = absl::StrCat(kPlain, "}");
  for (const char* headers :
       {"Host: evil.org\r\n", "Host: localhost.evil.org:5\r\n", "Host: \r\n",
        "Host: localhost\r\nOrigin: http://evil.org\r\n",
        "Host: localhost:8\r\nOrigin: https://localhost:8\r\n",
        "Host: localhost\r\nOrigin: null\r\n"}) {
    EXPECT_EQ(Post(body, headers).status, 403) << headers;
  }
  for (const char* headers : {"", "Host: localhost\r\nHost: evil.org\r\n"}) {
    EXPECT_EQ(Post(body, headers).status, 400) << headers;
  }
  for (const char* headers :
       {"Host: localhost:8000\r\n", "Host: 127.0.0.1\r\n", "Host: [::1]:5\r\n",
        "Host: localhost:8\r\nOrigin: http://localhost:8\r\n"}) {
    EXPECT_EQ(Post(body, headers).status, 200) << headers;
  }
  EXPECT_EQ(Post(body, "Host: localhost\r\n", "text/plain").status, 400);
  EXPECT_EQ(Post(body, "Host: localhost\r\n", "Application/JSON; charset=utf-8")
                .status,
            200);
}

TEST_F(CompletionsPortTest, ModelsAreListed) {
  const std::string get =
      "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
      "Authorization: Bearer ";
  EXPECT_EQ(Exchange(absl::StrCat(get, "comera-ticket_good\r\n\r\n")).json(), ParseJson(R"({
    "object": "list", "data": [{"id": "jobs/a/models/m", "object": "model",
    "created": 1700000000, "owned_by": "alice", "loaded": true}]})"));
  EXPECT_EQ(Exchange(absl::StrCat(get, "comera-ticket_bad\r\n\r\n")).status, 401);
}

TEST_F(CompletionsPortTest, OtherPathsMethodsAndBodiesAreRefused) {
  EXPECT_EQ(Exchange("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 404);
  EXPECT_EQ(
      Exchange("GET /v1/models/x HTTP/1.1\r\nHost: localhost\r\n\r\n").status,
      404);
  EXPECT_EQ(Exchange("GET /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .status,
            405);
  EXPECT_EQ(Exchange("POST /v1/models HTTP/1.1\r\nHost: localhost\r\n"
                     "Content-Length: 0\r\n\r\n")
                .status,
            405);
  EXPECT_EQ(Post("").status, 400);
  EXPECT_EQ(Post("{").status, 400);
  // The answer comes although all of the body is sent first.
  const Answer large = Post(std::string((size_t{4} << 20) + 1, ' '));
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(large.json()["error"]["code"], "request_too_large");
  EXPECT_EQ(
      Post(absl::StrCat(std::string((size_t{4} << 20) - 100, ' '), kPlain, "}"))
          .status,
      200);
  const Answer malformed = Exchange("nonsense\r\n\r\n");
  EXPECT_EQ(malformed.status, 400);
  EXPECT_EQ(malformed.json()["error"]["type"], "invalid_request_error");
}

TEST_F(CompletionsPortTest, LargeBodiesThatArriveAreBounded) {
  const std::string large =
      absl::StrCat(std::string(size_t{3} << 20, ' '), kPlain, "}");
  const std::string whole = PostOf(large);
  // Two bodies that do not arrive leave no room for a third, once the port has
  // seen both and until their time is over.
  int first = -1, second = -1;
  Answer answer;
  answer.status = 200;
  for (int tries = 0; tries < 400 && answer.status == 200; ++tries) {
    if (tries % 4 == 0) {
      if (first >= 0) close(first);
      if (second >= 0) close(second);
      first = Connect();
      second = Connect();
      Write(first, whole.substr(0, 1000));
      Write(second, whole.substr(0, 1000));
    }
    answer = Post(large);
  }
  ASSERT_EQ(answer.status, 429);
  EXPECT_EQ(answer.json()["error"]["code"], "rate_limit_exceeded");
  EXPECT_THAT(answer.json()["error"]["message"].get<std::string>(),
              HasSubstr("large requests"));
  EXPECT_EQ(Post(absl::StrCat(kPlain, "}")).status, 200);
  // Their room is free as soon as they break off, however they do.
  Reset(first);
  close(second);
  const absl::Time reset = absl::Now();
  do {
    answer = Post(large);
  } while (answer.status == 429 && absl::Now() < reset + absl::Seconds(20));
  EXPECT_EQ(answer.status, 200);
}

// More than there are places for calls.
TEST_F(CompletionsPortTest, BodiesThatDoNotArriveTakeNoPlaces) {
  const std::string whole = PostOf(absl::StrCat(kPlain, "}"));
  std::vector<int> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(Connect());
    Write(silent.back(), whole.substr(0, whole.size() - 1));
  }
  EXPECT_EQ(Exchange(whole).status, 200);
  for (const int socket : silent) Reset(socket);
}

TEST_F(CompletionsPortTest, CallsThatWaitAreBounded) {
  constexpr int kAtOnce = 16, kWaiting = 32, kTooMany = 8;
  SilentTexts texts(kAtOnce);
  const std::string get =
      "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
      "Authorization: Bearer comera-ticket_good\r\n\r\n";
  ASSERT_OK_AND_ASSIGN(const auto port, CompletionsPort::Start(
                                            OptionsOf("127.0.0.1:0"), &texts));
  std::vector<pollfd> polls;
  const auto call = [&](int times) {
    for (int i = 0; i < times; ++i) {
      polls.push_back({Connect(*port), POLLIN, 0});
      Write(polls.back().fd, get);
    }
  };
  call(kAtOnce);
  texts.AwaitCalls();
  call(kWaiting + kTooMany);
  // Only refusals are answered.
  std::vector<int> answered;
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (answered.size() < kTooMany && absl::Now() < deadline) {
    poll(polls.data(), polls.size(), 1000);
    for (pollfd& each : polls) {
      if (each.fd < 0 || (each.revents & POLLIN) == 0) continue;
      char head[13] = {};
      EXPECT_EQ(read(each.fd, head, 12), 12);
      EXPECT_STREQ(head, "HTTP/1.1 429");
      answered.push_back(std::exchange(each.fd, -1));
    }
  }
  EXPECT_EQ(answered.size(), size_t{kTooMany});
  // Nobody waits for the places of those who leave.
  for (const pollfd& each : polls) {
    if (each.fd >= 0) close(each.fd);
  }
  for (const int socket : answered) close(socket);
}

TEST_F(CompletionsPortTest, BodiesMayComeInChunks) {
  const std::string body = absl::StrCat(kPlain, "}");
  EXPECT_EQ(Exchange(absl::StrCat(
                         "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Type: application/json\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n",
                         absl::Hex(body.size()), "\r\n", body, "\r\n0\r\n\r\n"))
                .status,
            200);
}

TEST_F(CompletionsPortTest, OnlyThisMachineUnlessAllowed) {
  for (const char* listen :
       {"0.0.0.0:0", "[::]:0", ":0", "127.0.0.1:0s", "127.0.0.1:0,0.0.0.0:0",
        "127.0.0.1", "", "127.0.0.1:", "127.0.0.1:999999", "x.org:0"}) {
    EXPECT_THAT(CompletionsPort::Start(OptionsOf(listen), texts_),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         StartsWith("completions_listen: ")))
        << listen;
  }
  EXPECT_OK(CompletionsPort::Start(OptionsOf("0.0.0.0:0", true), texts_));
  EXPECT_THAT(CompletionsPort::Start(OptionsOf(port_->address()), texts_),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace comera::worker
