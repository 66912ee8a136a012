// Asks machines of silent workers whether the worker's port is still open.
#include "server/host/worker_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/time/clock.h"

namespace comera::server {
namespace {

// Whether the connection to this one address is refused.
bool Refused(const addrinfo& address, absl::Duration timeout) {
  const int fd =
      socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  int error = 0;
  if (connect(fd, address.ai_addr, address.ai_addrlen) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      pollfd entry = {fd, POLLOUT, 0};
      socklen_t size = sizeof(error);
      if (poll(&entry, 1,
               static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0 ||
          getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = ETIMEDOUT;
      }
    }
  }
  close(fd);
  return error == ECONNREFUSED;
}

}  // namespace

bool ConnectionRefused(const std::string& address, absl::Duration timeout) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return false;
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints,
                  &found) != 0) {
    return false;
  }
  bool refused = found != nullptr;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    refused = refused && Refused(*one, timeout);
  }
  freeaddrinfo(found);
  return refused;
}

void WorkerProbes::Ask(WorkerProbe probe) {
  if (waiting_.load() >= options_.max_waiting) return;
  ++waiting_;
  thread_.Post([this, probe = std::move(probe)] {
    --waiting_;
    if (!ConnectionRefused(probe.address, options_.timeout)) return;
    absl::SleepFor(options_.pause);
    if (ConnectionRefused(probe.address, options_.timeout)) on_gone_(probe);
  });
}

}  // namespace comera::server
