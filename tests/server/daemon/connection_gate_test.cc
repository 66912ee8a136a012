// Tests the gRPC port's bounds with real sockets: who opens many connections
// and says nothing shuts out itself alone.
#include "server/daemon/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/peer_key.h"
#include "common/status_matchers.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

// A connection that may never say anything.
class Silent {
 public:
  Silent(const char* from, const char* to, int port)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, from, &address.sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
              0);
    inet_pton(AF_INET, to, &address.sin_addr);
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(
        connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
  }
  ~Silent() { close(fd_); }
  // A server of HTTP/2 speaks first: its settings come, or the end.
  bool served() {
    char byte;
    return recv(fd_, &byte, 1, MSG_PEEK) == 1;
  }
  // Waits for the end; what comes before is passed over.
  bool WaitForEnd(absl::Duration limit) {
    const absl::Time end = absl::Now() + limit;
    while (absl::Now() < end) {
      pollfd event = {fd_, POLLIN, 0};
      poll(&event, 1,
           static_cast<int>(absl::ToInt64Milliseconds(end - absl::Now()) + 1));
      char bytes[512];
      if (event.revents != 0 && recv(fd_, bytes, sizeof(bytes), 0) <= 0) {
        return true;
      }
    }
    return false;
  }

 private:
  const int fd_;
};

// Connects, if anybody listens, and resets the connection.
void TryToConnect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  (void)connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  const linger reset = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  close(fd);
}

// Answers every call with the peer that it sees.
class PeerService : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    class Answer : public grpc::ServerGenericBidiReactor {
     public:
      explicit Answer(const std::string& peer) {
        Finish(grpc::Status(grpc::StatusCode::ABORTED, peer));
      }
      void OnDone() override { delete this; }
    };
    return new Answer(context->peer());
  }
};

class ConnectionGateTest : public testing::Test {
 protected:
  void Serve(const std::string& host = "127.0.0.1",
             int handshake_timeout_ms = 60000) {
    Serve(&service_, host, handshake_timeout_ms);
  }
  void Serve(PeerService* service, const std::string& host = "127.0.0.1",
             int handshake_timeout_ms = 60000) {
    auto gate = ConnectionGate::Open(host, 0, limits_);
    ASSERT_OK(gate);
    gate_ = *std::move(gate);
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(service);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               handshake_timeout_ms);
    gate_->AttachTo(&builder, grpc::InsecureServerCredentials());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    ASSERT_OK(gate_->Start());
  }
  ~ConnectionGateTest() override {
    gate_.reset();
    if (server_ != nullptr) server_->Shutdown();
  }

  // The address that the server sees of a new channel; empty: it does not
  // answer.
  static std::string Call(const std::string& target,
                          absl::Duration limit = absl::Seconds(20)) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(
        target, grpc::InsecureChannelCredentials(), arguments);
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + limit));
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, "/any/Method",
                                            grpc::ByteBuffer(), &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, &queue);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) continue;
    return status.error_code() == grpc::StatusCode::ABORTED
               ? status.error_message()
               : "";
  }
  std::string Here() { return absl::StrCat("127.0.0.1:", gate_->port()); }

  ConnectionLimits limits_;
  PeerService service_;
  std::unique_ptr<ConnectionGate> gate_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ConnectionGateTest, CallsComeThroughWithTheirPeer) {
  Serve();
  EXPECT_THAT(Call(Here()), testing::StartsWith("ipv4:127.0.0.1:"));
}

TEST_F(ConnectionGateTest, SilentConnectionsOfOneAddressShutOutThatOneAlone) {
  limits_.per_loopback_address = 5;
  Serve();
  std::vector<std::unique_ptr<Silent>> silent;
  for (int i = 0; i < 5; ++i) {
    silent.push_back(
        std::make_unique<Silent>("127.0.0.2", "127.0.0.1", gate_->port()));
    EXPECT_TRUE(silent.back()->served()) << i;
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(Silent("127.0.0.2", "127.0.0.1", gate_->port()).served());
  }
  EXPECT_NE(Call(Here()), "");
  // A place is free again once its connection has ended.
  silent.clear();
  bool served = false;
  for (const absl::Time end = absl::Now() + absl::Seconds(20);
       !served && absl::Now() < end;) {
    served = Silent("127.0.0.2", "127.0.0.1", gate_->port()).served();
  }
  EXPECT_TRUE(served);
}

TEST_F(ConnectionGateTest, ManyAddressesTogetherLeaveTheReserve) {
  limits_.connections = 4;
  limits_.per_loopback_address = 3;
  limits_.reserve = 2;
  Serve();
  std::vector<std::unique_ptr<Silent>> silent;
  for (const char* from : {"127.0.0.2", "127.0.0.3"}) {
    for (int i = 0; i < 2; ++i) {
      silent.push_back(
          std::make_unique<Silent>(from, "127.0.0.1", gate_->port()));
      EXPECT_TRUE(silent.back()->served());
    }
  }
  EXPECT_FALSE(Silent("127.0.0.2", "127.0.0.1", gate_->port()).served());
  EXPECT_NE(Call(Here()), "");
}

TEST_F(ConnectionGateTest, WhoSaysNothingIsCutOff) {
  Serve("127.0.0.1", /*handshake_timeout_ms=*/100);
  EXPECT_TRUE(Silent("127.0.0.2", "127.0.0.1", gate_->port())
                  .WaitForEnd(absl::Seconds(20)));
}

TEST_F(ConnectionGateTest, ListensOnAllAddressesOfANameAndOfTheMachine) {
  Serve("0.0.0.0");
  EXPECT_THAT(Call(Here()), testing::StartsWith("ipv4:127.0.0.1:"));
  EXPECT_NE(Call(absl::StrCat("127.0.0.3:", gate_->port())), "");
  // A machine without IPv6 has no such address.
  const int probe = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool v6 =
      bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(probe);
  if (v6) {
    EXPECT_THAT(Call(absl::StrCat("[::1]:", gate_->port())),
                testing::StartsWith("ipv6:"));
  }
  const auto named = ConnectionGate::Open("localhost", 0, {});
  ASSERT_OK(named);
  EXPECT_GT((*named)->port(), 0);
}

TEST_F(ConnectionGateTest, APortThatIsTakenIsRefusedAndAFreedOneCanBeHad) {
  Serve();
  const int port = gate_->port();
  EXPECT_THAT(ConnectionGate::Open("127.0.0.1", port, {}),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_NE(Call(Here()), "");
  gate_->Stop();
  server_->Shutdown();
  EXPECT_OK(ConnectionGate::Open("127.0.0.1", port, {}));
}

TEST(ConnectionGateAddressTest, AHostWithoutAddressIsRefused) {
  EXPECT_THAT(ConnectionGate::Open("no such host", 0, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ConnectionPlacesTest, ADescriptorThatNamesAnotherFileIsFree) {
  ConnectionLimits limits;
  limits.per_address = 1;
  ConnectionPlaces places(limits);
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  EXPECT_TRUE(places.Take(pair[0], "10.0.0.1"));
  EXPECT_FALSE(places.Take(pair[1], "10.0.0.1"));
  EXPECT_TRUE(places.Take(pair[1], "10.0.0.2"));
  // The number lives on as that of a file.
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(dup2(file, pair[0]), pair[0]);
  EXPECT_TRUE(places.Take(pair[1], "10.0.0.1"));
  EXPECT_EQ(places.taken(), 1u);
  for (const int fd : {pair[0], pair[1], file}) close(fd);
}

std::string KeyOf(const char* text) {
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
    return PeerKey(reinterpret_cast<sockaddr*>(&v6));
  }
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  EXPECT_EQ(inet_pton(AF_INET, text, &v4.sin_addr), 1);
  return PeerKey(reinterpret_cast<sockaddr*>(&v4));
}

TEST(PeerKeyTest, CountsWhatOneMachineHasAsOne) {
  EXPECT_EQ(KeyOf("10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(KeyOf("::ffff:10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(KeyOf("2001:db8:1:2:3:4:5:6"), KeyOf("2001:db8:1:2::1"));
  EXPECT_NE(KeyOf("2001:db8:1:2::1"), KeyOf("2001:db8:1:3::1"));
  EXPECT_TRUE(IsLoopbackKey(KeyOf("127.0.0.2")));
  EXPECT_NE(KeyOf("127.0.0.2"), KeyOf("127.0.0.1"));
  EXPECT_TRUE(IsLoopbackKey(KeyOf("::1")));
  EXPECT_FALSE(IsLoopbackKey(KeyOf("10.0.0.127")));
}

// gRPC's reference counts are those of its own listeners; here connections come
// from another thread while the server ends.
TEST_F(ConnectionGateTest, TheServerEndsWhileConnectionsComeAndGo) {
  constexpr int kRounds = 20, kThreads = 3, kConnections = 15;
  for (int round = 0; round < kRounds; ++round) {
    PeerService service;
    Serve(&service);
    const std::string target = Here();
    const int port = gate_->port();
    std::atomic<int> made{0};
    std::atomic<bool> ended{false};
    std::vector<std::thread> callers;
    for (int i = 0; i < kThreads; ++i) {
      callers.emplace_back([&, i] {
        while (!ended) {
          if (i == 0) {
            Call(target, absl::Milliseconds(50));
          } else {
            TryToConnect(port);
          }
          ++made;
        }
      });
    }
    while (made < kConnections) std::this_thread::yield();
    gate_.reset();
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
    ended = true;
    for (std::thread& caller : callers) caller.join();
  }
}

}  // namespace
}  // namespace comera::server
