// The bounds of the HTTP port: what is too large, too slow or too much.

#include "common/http/http_server.h"

#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/http/http_client.h"

namespace comera {
namespace {

using ::testing::HasSubstr;

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() { options_.listen = "127.0.0.1:0"; }

  void Start() {
    auto server = HttpServer::Start(
        options_, [this](std::shared_ptr<HttpExchange> exchange) {
          handler_(std::move(exchange));
        });
    ASSERT_OK(server);
    server_ = *std::move(server);
  }
  HttpClient Connect() { return HttpClient(server_->address()); }

  HttpServer::Options options_;
  HttpHandler handler_ = [](std::shared_ptr<HttpExchange> exchange) {
    const HttpRequest& request = exchange->request();
    exchange->Send(
        MakeResponse(200, "text/plain",
                     absl::StrCat(request.method, " ", request.path, "?",
                                  request.query, " ", request.body)));
  };
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, RequestsComeWhole) {
  Start();
  HttpClient client(server_->address());
  EXPECT_EQ(client.Call("POST", "/a?b=c", {}, "body").body, "POST /a?b=c body");
  // Chunked, and two at once.
  client.SendRaw(
      "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
      "GET /y HTTP/1.1\r\nHost: h\r\n\r\n");
  bool cut = false;
  client.Receive();
  EXPECT_EQ(client.ReadPart(&cut), "POST /x? abcde");
  client.Receive();
  EXPECT_EQ(client.ReadPart(&cut), "GET /y? ");
  // A sender that asks first.
  client.SendRaw(
      "PUT /z HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n"
      "Expect: 100-continue\r\n\r\nabc");
  EXPECT_EQ(client.Receive().code, 200);
  EXPECT_EQ(client.ReadPart(&cut), "PUT /z? abc");
}

TEST_F(HttpServerTest, OldClientsAreAnsweredAndClosed) {
  Start();
  HttpClient client(server_->address());
  client.SendRaw("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.Receive().code, 200);
  bool cut = false;
  EXPECT_EQ(client.ReadPart(&cut), "GET /? ");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpServerTest, NoRequestIsRefused) {
  Start();
  for (const char* bad :
       {"nonsense\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
        "Transfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n"}) {
    HttpClient client(server_->address());
    client.SendRaw(bad);
    EXPECT_EQ(client.Receive().code, 400) << bad;
  }
}

TEST_F(HttpServerTest, LargeRequestsAreRefused) {
  options_.max_header_bytes = 1000;
  options_.max_body_bytes = 10000;
  Start();
  EXPECT_EQ(Connect().Call("GET", "/" + std::string(2000, 'x')).code, 431);
  EXPECT_EQ(Connect().Call("POST", "/", {}, std::string(10001, 'x')).code, 413);
  EXPECT_EQ(Connect().Call("POST", "/", {}, std::string(10000, 'x')).code, 200);
  HttpClient client(server_->address());
  client.SendRaw(absl::StrCat(
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
      "2ee0\r\n", std::string(12000, 'x'), "\r\n0\r\n\r\n"));
  EXPECT_EQ(client.Receive().code, 413);
}

TEST_F(HttpServerTest, ALaterRequestOfAConnectionIsRefusedAsTheFirst) {
  options_.max_body_bytes = 10000;
  Start();
  HttpClient client(server_->address());
  EXPECT_EQ(client.Call("GET", "/").code, 200);
  EXPECT_EQ(client.Call("POST", "/", {}, std::string(10001, 'x')).code, 413);
}

TEST_F(HttpServerTest, BodiesTogetherAreBounded) {
  options_.max_bodies_bytes = 1500;
  options_.max_body_bytes = 1000;
  options_.small_body_bytes = 100;
  Start();
  // Never sent to its end.
  HttpClient slow(server_->address());
  slow.SendRaw(
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n"
      "Expect: 100-continue\r\n\r\n");
  // Its place is taken once it is told to go on.
  EXPECT_EQ(slow.ReadRaw(25), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(Connect().Call("POST", "/", {}, std::string(900, 'x')).code, 503);
  EXPECT_EQ(Connect().Call("POST", "/", {}, std::string(400, 'x')).code, 200);
  // Small ones have room of their own.
  std::unique_ptr<HttpClient> second;
  // The place of the body before may be free only after its answer.
  for (std::string told; told != "HTTP/1.1 100 Continue\r\n\r\n";) {
    second = std::make_unique<HttpClient>(server_->address());
    second->SendRaw(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 500\r\n"
        "Expect: 100-continue\r\n\r\n");
    told = second->ReadRaw(25);
  }
  EXPECT_EQ(Connect().Call("POST", "/", {}, std::string(101, 'x')).code, 503);
  EXPECT_EQ(Connect().Call("POST", "/", {}, std::string(100, 'x')).code, 200);
}

TEST_F(HttpServerTest, ConnectionsAreBounded) {
  options_.max_connections = 2;
  Start();
  HttpClient first(server_->address());
  HttpClient second(server_->address());
  EXPECT_EQ(first.Call("GET", "/").code, 200);
  EXPECT_EQ(second.Call("GET", "/").code, 200);
  EXPECT_EQ(Connect().Call("GET", "/").code, 0);
  EXPECT_EQ(first.Call("GET", "/").code, 200);
}

TEST_F(HttpServerTest, OneAddressDoesNotShutOutAnother) {
  options_.connections_per_loopback_address = 2;
  Start();
  const auto attacker = [this] {
    return std::make_unique<HttpClient>(server_->address(), "127.0.0.2");
  };
  auto first = attacker();
  const auto second = attacker();
  EXPECT_EQ(first->Call("GET", "/").code, 200);
  EXPECT_EQ(second->Call("GET", "/").code, 200);
  EXPECT_EQ(attacker()->Call("GET", "/").code, 0);
  EXPECT_EQ(Connect().Call("GET", "/").code, 200);
  // A place is free again once the server sees that its connection has ended.
  first.reset();
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  int code = 0;
  while (code == 0 && absl::Now() < limit) {
    code = attacker()->Call("GET", "/").code;
  }
  EXPECT_EQ(code, 200);
}

TEST_F(HttpServerTest, WhereAllPlacesAreTakenSomeRequestsAreServed) {
  options_.max_connections = 1;
  options_.reserved_connections = 2;
  options_.admits_when_full = [](const HttpRequest& request) {
    return request.path == "/healthz";
  };
  Start();
  HttpClient ordinary(server_->address());
  EXPECT_EQ(ordinary.Call("GET", "/").code, 200);
  EXPECT_EQ(Connect().Call("GET", "/").code, 503);
  // Two silent ones take the reserve; the one that came first has to go.
  HttpClient first(server_->address());
  HttpClient second(server_->address());
  HttpClient probe(server_->address());
  const HttpReply health = probe.Call("GET", "/healthz");
  EXPECT_EQ(health.code, 200);
  EXPECT_EQ(health.Header("Connection"), "close");
  EXPECT_TRUE(first.IsClosed());
  EXPECT_EQ(second.Call("GET", "/healthz").code, 200);
  // Nor do those that were refused, or that send a body without an end, keep
  // others out.
  std::vector<std::unique_ptr<HttpClient>> kept;
  for (const char* request :
       {"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\na"}) {
    for (int i = 0; i < 2; ++i) {
      kept.push_back(std::make_unique<HttpClient>(server_->address()));
      kept.back()->SendRaw(request);
    }
    EXPECT_EQ(Connect().Call("GET", "/healthz").code, 200);
  }
  EXPECT_EQ(ordinary.Call("GET", "/").code, 200);
}

TEST_F(HttpServerTest, TheFirstRequestHasLessTimeThanTheNext) {
  options_.first_head_timeout = absl::Milliseconds(50);
  Start();
  // On a busy machine this test itself may be too late with a first request.
  std::unique_ptr<HttpClient> kept;
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  int code = 0;
  while (code == 0 && absl::Now() < limit) {
    kept = std::make_unique<HttpClient>(server_->address());
    code = kept->Call("GET", "/").code;
  }
  ASSERT_EQ(code, 200);
  HttpClient silent(server_->address());
  EXPECT_TRUE(silent.IsClosed());
  EXPECT_EQ(kept->Call("GET", "/").code, 200);
}

TEST_F(HttpServerTest, SilentSendersAreClosed) {
  options_.idle_timeout = absl::Milliseconds(50);
  options_.body_timeout = absl::Milliseconds(50);
  Start();
  HttpClient silent(server_->address());
  EXPECT_TRUE(silent.IsClosed());
  HttpClient half(server_->address());
  half.SendRaw("GET / HTTP/1.1\r\nHo");
  EXPECT_TRUE(half.IsClosed());
  HttpClient body(server_->address());
  body.SendRaw("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_TRUE(body.IsClosed());
}

TEST_F(HttpServerTest, SlowReadersAreClosed) {
  options_.write_timeout = absl::Milliseconds(50);
  std::promise<void> gone;
  handler_ = [&gone](std::shared_ptr<HttpExchange> exchange) {
    exchange->OnDisconnect([&gone] { gone.set_value(); });
    exchange->Send(MakeResponse(200, "text/plain", std::string(64 << 20, 'x')));
  };
  Start();
  HttpClient client(server_->address());
  client.SendRaw("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  gone.get_future().wait();
}

TEST_F(HttpServerTest, StreamsWaitForTheirReader) {
  options_.write_timeout = absl::Milliseconds(50);
  std::mutex mutex;
  int64_t written = 0;
  std::promise<void> broken;
  std::function<void(std::shared_ptr<HttpExchange>)> write =
      [&](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->Write(std::string(1 << 20, 'x'), [&, exchange](bool ok) {
          if (!ok) return broken.set_value();
          {
            const std::lock_guard<std::mutex> lock(mutex);
            ++written;
          }
          write(exchange);
        });
      };
  handler_ = [&](std::shared_ptr<HttpExchange> exchange) {
    exchange->BeginStream(HttpResponse(), "");
    write(exchange);
  };
  Start();
  HttpClient client(server_->address());
  EXPECT_EQ(client.Begin("GET", "/").code, 200);
  broken.get_future().wait();
  // What buffers of the system take, not what a stream without end would be.
  EXPECT_LT(written, 64);
}

TEST_F(HttpServerTest, SilentStreamsSayThatTheyLive) {
  options_.idle_text_after = absl::Milliseconds(20);
  std::shared_ptr<HttpExchange> stream;
  handler_ = [&stream](std::shared_ptr<HttpExchange> exchange) {
    exchange->BeginStream(HttpResponse(), ":\n\n");
    stream = std::move(exchange);
  };
  Start();
  HttpClient client(server_->address());
  EXPECT_EQ(client.Begin("GET", "/").code, 200);
  bool cut = false;
  EXPECT_EQ(client.ReadPart(&cut), ":\n\n");
  EXPECT_EQ(client.ReadPart(&cut), ":\n\n");
  stream->Write("data", [](bool) {});
  std::string part;
  while ((part = client.ReadPart(&cut)) == ":\n\n") {
  }
  EXPECT_EQ(part, "data");
  stream->End();
  while (!(part = client.ReadPart(&cut)).empty()) {
  }
  EXPECT_FALSE(cut);
  EXPECT_TRUE(client.IsClosed());
  stream.reset();
}

TEST_F(HttpServerTest, CallersWhoLeaveBeforeTheAnswerAreNoticedOnDemand) {
  std::promise<std::shared_ptr<HttpExchange>> pending;
  std::promise<void> gone;
  handler_ = [&](std::shared_ptr<HttpExchange> exchange) {
    exchange->OnDisconnect([&gone] { gone.set_value(); });
    pending.set_value(std::move(exchange));
  };
  options_.watch_callers = true;
  Start();
  std::shared_ptr<HttpExchange> exchange;
  {
    HttpClient client(server_->address());
    // The next request, which is there already, does not hide it.
    client.SendRaw(
        "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
    exchange = pending.get_future().get();
  }
  gone.get_future().wait();
  exchange.reset();
}

TEST_F(HttpServerTest, BodiesThatAreDroppedMakeRoom) {
  options_.max_bodies_bytes = 1000;
  options_.small_body_bytes = 100;
  std::promise<std::shared_ptr<HttpExchange>> pending;
  handler_ = [&pending](std::shared_ptr<HttpExchange> exchange) {
    if (exchange->request().path == "/keep") {
      return pending.set_value(std::move(exchange));
    }
    exchange->Send(MakeResponse(200, "text/plain", "x"));
  };
  Start();
  const std::string body(900, 'x');
  HttpClient first(server_->address());
  first.SendRaw(absl::StrCat(
      "POST /keep HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n", body));
  const std::shared_ptr<HttpExchange> exchange = pending.get_future().get();
  EXPECT_EQ(exchange->request().body, body);
  EXPECT_EQ(Connect().Call("POST", "/", {}, body).code, 503);
  exchange->DropBody();
  EXPECT_EQ(exchange->request().body, "");
  int code = 503;
  while (code == 503) code = Connect().Call("POST", "/", {}, body).code;
  EXPECT_EQ(code, 200);
  exchange->Send(MakeResponse(200, "text/plain", "x"));
  EXPECT_EQ(first.Receive().code, 200);
}

TEST_F(HttpServerTest, RefusalsHaveTheFormThatIsAskedFor) {
  options_.max_body_bytes = 10;
  options_.refusal = [](int code, const std::string& reason) {
    return MakeResponse(code + 1, "text/x", reason);
  };
  Start();
  const HttpReply reply = Connect().Call("POST", "/", {}, std::string(11, 'x'));
  EXPECT_EQ(reply.code, 414);
  EXPECT_EQ(reply.Header("Content-Type"), "text/x");
  EXPECT_EQ(reply.body, "the request's body is too large");
}

TEST_F(HttpServerTest, WhatIsDroppedIsToldOrCutOff) {
  handler_ = [](std::shared_ptr<HttpExchange> exchange) {
    if (exchange->request().path == "/stream") {
      exchange->BeginStream(HttpResponse(), "");
    }
  };
  Start();
  EXPECT_EQ(Connect().Call("GET", "/").code, 500);
  // Begun, so that it only can break.
  EXPECT_EQ(Connect().Call("GET", "/stream").code, 0);
}

TEST_F(HttpServerTest, HeadersCannotBeSmuggled) {
  handler_ = [](std::shared_ptr<HttpExchange> exchange) {
    HttpResponse response = MakeResponse(200, "text/plain", "x");
    response.headers.emplace_back("Evil", "a\r\nSet-Cookie: b");
    exchange->Send(std::move(response));
  };
  Start();
  const HttpReply reply = Connect().Call("GET", "/");
  EXPECT_EQ(reply.code, 200);
  EXPECT_EQ(reply.Header("Set-Cookie"), "");
  EXPECT_EQ(reply.Header("Evil"), "");
}

TEST_F(HttpServerTest, AShutdownWaitsForAnswersNotForStreams) {
  std::promise<std::shared_ptr<HttpExchange>> pending;
  handler_ = [&pending](std::shared_ptr<HttpExchange> exchange) {
    pending.set_value(std::move(exchange));
  };
  Start();
  HttpClient idle(server_->address());
  HttpClient client(server_->address());
  client.SendRaw("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  std::shared_ptr<HttpExchange> exchange = pending.get_future().get();
  std::thread answer([&exchange] {
    exchange->Send(MakeResponse(200, "text/plain", "late"));
    exchange.reset();
  });
  server_->Shutdown(absl::Seconds(10));
  answer.join();
  EXPECT_EQ(client.Receive().code, 200);
  EXPECT_TRUE(idle.IsClosed());
  EXPECT_EQ(Connect().Call("GET", "/").code, 0);
}

TEST(HttpServerAddressTest, MustMakeSense) {
  HttpServer::Options options;
  for (const char* bad : {"", "x", "127.0.0.1", "127.0.0.1:x", ":1",
                          "127.0.0.1:70000", "no.such.host.invalid:1"}) {
    options.listen = bad;
    EXPECT_THAT(HttpServer::Start(options, nullptr).status(),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << bad;
  }
  options.listen = "127.0.0.1:0";
  const auto first = HttpServer::Start(options, nullptr);
  ASSERT_OK(first);
  options.listen = (*first)->address();
  EXPECT_THAT(HttpServer::Start(options, nullptr).status(),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(CanListen(options.listen));
}

}  // namespace
}  // namespace comera
