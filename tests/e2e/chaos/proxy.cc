// Serves all connections by poll() on one thread.
#include "tests/e2e/chaos/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::e2e {
namespace {

// How late what is due may be passed on.
constexpr int kIntervalMs = 5;
constexpr size_t kReadBytes = 64 << 10;
// More than this is not read before it is passed on.
constexpr size_t kMostBytes = 4 << 20;

absl::StatusOr<sockaddr_in> Parse(const std::string& address) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(address, ':');
  sockaddr_in result = {};
  result.sin_family = AF_INET;
  int port = 0;
  if (!absl::SimpleAtoi(parts.second, &port) ||
      inet_pton(AF_INET, parts.first.c_str(), &result.sin_addr) != 1) {
    return absl::InvalidArgumentError("not an address: " + address);
  }
  result.sin_port = htons(static_cast<uint16_t>(port));
  return result;
}

const sockaddr* Generic(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

void SendAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

ChaosProxy::ChaosProxy() : thread_([this] { Loop(); }) {}

// The thread ends, then all sockets are closed.
ChaosProxy::~ChaosProxy() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  thread_.join();
  for (const Route& route : routes_) close(route.listener);
  for (const Connection& connection : connections_) {
    close(connection.client);
    close(connection.server);
  }
}

absl::StatusOr<std::string> ChaosProxy::AddRoute(const std::string& listen,
                                                 const std::string& server,
                                                 int group) {
  ASSIGN_OR_RETURN(const sockaddr_in address, Parse(listen));
  RETURN_IF_ERROR(Parse(server).status());
  const int listener =
      socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in real = {};
  socklen_t size = sizeof(real);
  if (bind(listener, Generic(address), sizeof(address)) != 0 ||
      ::listen(listener, SOMAXCONN) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&real), &size) != 0) {
    const absl::Status status = ErrnoStatus(errno, "listen at " + listen);
    close(listener);
    return absl::UnavailableError(status.message());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  routes_.push_back({listener, server, group});
  char host[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &real.sin_addr, host, sizeof(host));
  return absl::StrCat(host, ":", ntohs(real.sin_port));
}

void ChaosProxy::Set(int group, const Manner& manner) {
  std::unique_lock<std::mutex> lock(mutex_);
  manners_[group] = manner;
  const int64_t turn = turn_;
  turned_.wait(lock, [&] { return ending_ || turn_ > turn; });
}

void ChaosProxy::Accept(const Route& route) {
  while (true) {
    const int client =
        accept4(route.listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) return;
    const int server =
        socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const auto address = Parse(route.server);
    // A refusal shows when the socket is read.
    if (connect(server, Generic(*address), sizeof(*address)) != 0 &&
        errno != EINPROGRESS) {
      close(client);
      close(server);
      continue;
    }
    SendAtOnce(client);
    SendAtOnce(server);
    Connection& connection = connections_.emplace_back();
    connection.group = route.group;
    connection.client = client;
    connection.server = server;
  }
}

bool ChaosProxy::Read(int fd, const Manner& manner, Stream* stream) {
  while (!stream->ended && stream->bytes < kMostBytes) {
    std::string data(kReadBytes, '\0');
    const ssize_t n = read(fd, data.data(), data.size());
    if (n < 0) {
      return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
    }
    if (n == 0) {
      stream->ended = true;
      return true;
    }
    data.resize(n);
    const size_t most = manner.piece == 0 ? data.size() : manner.piece;
    for (size_t i = 0; i < data.size(); i += most) {
      const double share = std::uniform_real_distribution<double>()(random_);
      absl::Time due =
          absl::Now() + manner.least + (manner.most - manner.least) * share;
      if (!stream->pieces.empty()) {
        due = std::max(due, stream->pieces.back().due);
      }
      stream->pieces.push_back({due, data.substr(i, most)});
    }
    stream->bytes += data.size();
  }
  return true;
}

bool ChaosProxy::Write(int fd, bool silent, absl::Time now, Stream* stream) {
  while (!silent && !stream->pieces.empty() &&
         stream->pieces.front().due <= now) {
    std::string& data = stream->pieces.front().data;
    const ssize_t n = send(fd, data.data(), data.size(), MSG_NOSIGNAL);
    if (n < 0) {
      return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
    }
    stream->bytes -= n;
    data.erase(0, n);
    if (data.empty()) stream->pieces.pop_front();
  }
  if (!silent && stream->ended && stream->pieces.empty()) {
    shutdown(fd, SHUT_WR);
  }
  return true;
}

void ChaosProxy::Loop() {
  while (true) {
    std::vector<Route> routes;
    std::map<int, Manner> manners;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (ending_) return;
      routes = routes_;
      manners = manners_;
      ++turn_;
    }
    turned_.notify_all();
    for (const Route& route : routes) Accept(route);
    const absl::Time now = absl::Now();
    std::vector<pollfd> fds;
    for (const Route& route : routes)
      fds.push_back({route.listener, POLLIN, 0});
    for (auto it = connections_.begin(); it != connections_.end();) {
      Connection& one = *it;
      const Manner& manner = manners[one.group];
      const bool whole =
          Read(one.client, manner, &one.to_server) &&
          Read(one.server, manner, &one.to_client) &&
          Write(one.server, manner.silent_to, now, &one.to_server) &&
          Write(one.client, manner.silent_from, now, &one.to_client);
      const bool done = one.to_server.ended && one.to_client.ended &&
                        one.to_server.pieces.empty() &&
                        one.to_client.pieces.empty();
      if (!whole || done) {
        close(one.client);
        close(one.server);
        it = connections_.erase(it);
        continue;
      }
      if (!one.to_server.ended && one.to_server.bytes < kMostBytes) {
        fds.push_back({one.client, POLLIN, 0});
      }
      if (!one.to_client.ended && one.to_client.bytes < kMostBytes) {
        fds.push_back({one.server, POLLIN, 0});
      }
      ++it;
    }
    poll(fds.data(), fds.size(), kIntervalMs);
  }
}

}  // namespace comera::e2e
