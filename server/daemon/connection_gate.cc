// Accepts connections for a gRPC server.
#include "server/daemon/connection_gate.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/peer_key.h"
#include "common/status_macros.h"
#include "common/steady_time.h"

namespace comera::server {
namespace {

constexpr absl::Duration kNoteInterval = absl::Seconds(10);
constexpr int kPauseMs = 100;

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;
};

Address MakeAddress(const void* bytes, socklen_t size) {
  Address address;
  memcpy(&address.storage, bytes, size);
  address.size = size;
  return address;
}

void SetPort(Address* address, int port) {
  const auto number = htons(static_cast<uint16_t>(port));
  if (address->storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address->storage)->sin6_port = number;
  } else {
    reinterpret_cast<sockaddr_in*>(&address->storage)->sin_port = number;
  }
}

absl::StatusOr<std::vector<Address>> Resolve(std::string host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), "0", &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "listen: \"", host, "\" has no address: ", gai_strerror(error)));
  }
  std::vector<Address> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    addresses.push_back(MakeAddress(one->ai_addr, one->ai_addrlen));
  }
  freeaddrinfo(found);
  return addresses;
}

bool IsWildcard(const Address& address) {
  if (address.storage.ss_family == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(
        &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
  }
  return reinterpret_cast<const sockaddr_in*>(&address.storage)
             ->sin_addr.s_addr == INADDR_ANY;
}

// Returns a socket that listens there, or the negative error.
int Listen(const Address& address) {
  const int fd = socket(address.storage.ss_family,
                        SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -errno;
  const int on = 1;
  const int off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // Connections inherit it.
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (address.storage.ss_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, IsWildcard(address) ? &off : &on,
               sizeof(on));
  }
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address.storage),
           address.size) == 0 &&
      listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  return -error;
}

int PortOf(int fd) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                   : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Open(
    const std::string& host, int port, const ConnectionLimits& limits) {
  ASSIGN_OR_RETURN(std::vector<Address> addresses, Resolve(host));
  if (IsWildcard(addresses.front())) {
    sockaddr_in6 both = {};
    both.sin6_family = AF_INET6;
    both.sin6_addr = in6addr_any;
    addresses.insert(addresses.begin(), MakeAddress(&both, sizeof(both)));
  }
  std::unique_ptr<ConnectionGate> gate(new ConnectionGate(limits));
  int first_error = 0;
  for (Address& address : addresses) {
    SetPort(&address, gate->port_ > 0 ? gate->port_ : port);
    const int fd = Listen(address);
    if (fd < 0) {
      if (first_error == 0) first_error = -fd;
      // Another server has the port of one of the addresses: it would get a
      // part of the callers.
      if (-fd == EADDRINUSE) break;
      continue;
    }
    gate->listeners_.push_back(fd);
    gate->port_ = PortOf(fd);
    // It has the addresses of both families.
    if (IsWildcard(address)) break;
  }
  if (gate->listeners_.empty() || first_error == EADDRINUSE) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", host, ":", port, ": ", strerror(first_error)));
  }
  return gate;
}

ConnectionGate::~ConnectionGate() { Stop(); }

void ConnectionGate::AttachTo(
    grpc::ServerBuilder* builder,
    std::shared_ptr<grpc::ServerCredentials> credentials) {
  server_ = builder->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
}

absl::Status ConnectionGate::Start() {
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (wake_ < 0) {
    return absl::InternalError(absl::StrCat("eventfd: ", strerror(errno)));
  }
  thread_ = std::thread(&ConnectionGate::AcceptLoop, this);
  return absl::OkStatus();
}

void ConnectionGate::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    // An eventfd takes it.
    (void)!write(wake_, &one, sizeof(one));
    thread_.join();
  }
  for (const int fd : listeners_) close(fd);
  listeners_.clear();
  if (wake_ >= 0) close(wake_);
  wake_ = -1;
}

void ConnectionGate::AcceptLoop() {
  std::vector<pollfd> events = {{wake_, POLLIN, 0}};
  for (const int fd : listeners_) events.push_back({fd, POLLIN, 0});
  while (true) {
    const bool paused = std::exchange(pauses_, false);
    const int ready =
        poll(events.data(), paused ? 1 : events.size(), paused ? kPauseMs : -1);
    if (ready < 0 && errno != EINTR) {
      LOG(ERROR) << "event=accept_ended error=\"" << strerror(errno) << "\"";
      return;
    }
    if (ready <= 0) continue;
    if (events[0].revents != 0) return;
    for (size_t i = 1; i < events.size(); ++i) {
      if (events[i].revents != 0) AcceptFrom(events[i].fd);
    }
  }
}

void ConnectionGate::AcceptFrom(int listener) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  const int fd = accept4(listener, reinterpret_cast<sockaddr*>(&address), &size,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    // A peer that has left already is the other reason.
    pauses_ = errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
              errno == ENOMEM;
    LOG_IF(WARNING, pauses_)
        << "event=accept_failed error=\"" << strerror(errno) << "\"";
    return;
  }
  const std::string peer = PeerKey(reinterpret_cast<sockaddr*>(&address));
  if (!places_.Take(fd, peer)) {
    close(fd);
    return NoteRefusal(peer);
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
      connection;
  connection.listener_fd = listener;
  connection.fd = fd;
  server_->HandleNewConnection(&connection);
}

void ConnectionGate::NoteRefusal(const std::string& peer) {
  ++refused_;
  const absl::Time now = SteadyNow();
  if (now < next_note_) return;
  next_note_ = now + kNoteInterval;
  LOG(WARNING) << "event=connections_refused port=" << port_ << " peer=\""
               << peer << "\" count=" << std::exchange(refused_, 0)
               << " open=" << places_.taken();
}

}  // namespace comera::server
