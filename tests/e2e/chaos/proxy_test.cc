// Tests what the proxy passes on, holds back and drops.
#include "tests/e2e/chaos/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::e2e {
namespace {

constexpr int kGroup = 3;

sockaddr_in At(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A server and a client that has connected to it through the proxy.
class ProxyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = At(0);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(bind(listener_, generic, size), 0);
    ASSERT_EQ(listen(listener_, 1), 0);
    ASSERT_EQ(getsockname(listener_, generic, &size), 0);
    ASSERT_OK_AND_ASSIGN(
        const std::string route,
        proxy_.AddRoute("127.0.0.1:0",
                        absl::StrCat("127.0.0.1:", ntohs(address.sin_port)),
                        kGroup));
    int port = 0;
    ASSERT_TRUE(absl::SimpleAtoi(route.substr(route.find(':') + 1), &port));
    client_ = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in to = At(port);
    ASSERT_EQ(connect(client_, reinterpret_cast<const sockaddr*>(&to), size),
              0);
    server_ = accept(listener_, nullptr, nullptr);
    ASSERT_GE(server_, 0);
  }
  void TearDown() override {
    for (int fd : {listener_, client_, server_}) close(fd);
  }

  static void Send(int fd, const std::string& text) {
    ASSERT_EQ(write(fd, text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  // What arrives until there are so many bytes, or the end.
  static std::string Receive(int fd, size_t bytes) {
    std::string text(bytes, ' ');
    size_t done = 0;
    while (done < bytes) {
      const ssize_t n = read(fd, &text[done], bytes - done);
      if (n <= 0) break;
      done += n;
    }
    return text.substr(0, done);
  }
  static bool Arrives(int fd, absl::Duration limit) {
    pollfd wait = {fd, POLLIN, 0};
    return poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(limit))) >
           0;
  }

  ChaosProxy proxy_;
  int listener_ = -1, client_ = -1, server_ = -1;
};

TEST_F(ProxyTest, PassesAllOnInOrderAndTheEnd) {
  const std::string text(3 << 20, 'x');
  std::thread sender([&] { Send(client_, text + "end"); });
  EXPECT_EQ(Receive(server_, text.size() + 3), text + "end");
  sender.join();
  Send(server_, "answer");
  EXPECT_EQ(Receive(client_, 6), "answer");
  shutdown(client_, SHUT_WR);
  EXPECT_EQ(Receive(server_, 1), "");
  shutdown(server_, SHUT_WR);
  EXPECT_EQ(Receive(client_, 1), "");
}

TEST_F(ProxyTest, HoldsBackAndSplits) {
  ChaosProxy::Manner manner;
  manner.least = manner.most = absl::Milliseconds(200);
  manner.piece = 2;
  proxy_.Set(kGroup, manner);
  const absl::Time begin = absl::Now();
  Send(client_, "abcdefg");
  EXPECT_EQ(Receive(server_, 7), "abcdefg");
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(190));
}

TEST_F(ProxyTest, IsSilentInOneDirection) {
  ChaosProxy::Manner manner;
  manner.silent_to = true;
  proxy_.Set(kGroup, manner);
  Send(client_, "lost?");
  Send(server_, "heard");
  EXPECT_EQ(Receive(client_, 5), "heard");
  EXPECT_FALSE(Arrives(server_, absl::Milliseconds(100)));
  proxy_.Set(kGroup, {});
  EXPECT_EQ(Receive(server_, 5), "lost?");
}

TEST_F(ProxyTest, AnEndedServerEndsTheClient) {
  close(server_);
  server_ = -1;
  EXPECT_TRUE(Arrives(client_, absl::Seconds(20)));
}

TEST_F(ProxyTest, BadAddressesAreRefused) {
  EXPECT_FALSE(proxy_.AddRoute("here", "127.0.0.1:1", 0).ok());
  EXPECT_FALSE(proxy_.AddRoute("127.0.0.1:0", "there:1", 0).ok());
}

}  // namespace
}  // namespace comera::e2e
