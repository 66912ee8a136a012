// Tests probing of ports that are open, closed or silent.
#include "server/host/worker_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>

#include "gtest/gtest.h"

namespace comera::server {
namespace {

// A socket that listens on a free port of loopback.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
    listen(fd_, 1);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { Close(); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int fd_;
  int port_ = 0;
};

TEST(WorkerProbeTest, OnlyARefusedConnectionIsTheMachinesWord) {
  Listener listener;
  EXPECT_FALSE(ConnectionRefused(listener.address(), absl::Seconds(1)));
  listener.Close();
  EXPECT_TRUE(ConnectionRefused(listener.address(), absl::Seconds(1)));
  EXPECT_FALSE(ConnectionRefused("no such host:1", absl::Seconds(1)));
  EXPECT_FALSE(ConnectionRefused("junk", absl::Seconds(1)));
}

TEST(WorkerProbeTest, TellsOfTheGoneAndNotOfTheSilent) {
  Listener living, gone;
  gone.Close();
  std::promise<std::string> told;
  WorkerProbes::Options options;
  options.pause = absl::ZeroDuration();
  WorkerProbes probes(options, [&](const WorkerProbe& probe) {
    told.set_value(probe.worker);  // twice would throw
  });
  probes.Ask({"living", "i1", living.address()});
  probes.Ask({"gone", "i1", gone.address()});
  EXPECT_EQ(told.get_future().get(), "gone");
}

}  // namespace
}  // namespace comera::server
