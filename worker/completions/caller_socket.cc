// Finds the sockets of CivetWeb's connections and looks whether they end.

#include "worker/completions/caller_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "civetweb.h"

namespace comera::worker {
namespace {

using NameOf = int (*)(int, sockaddr*, socklen_t*);

// The numeric host and the port of one end of a socket; empty and 0 if it has
// none.
std::pair<std::string, int> EndOf(int socket, NameOf name_of) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  char host[NI_MAXHOST], port[NI_MAXSERV];
  int number = 0;
  if (name_of(socket, any, &size) != 0 ||
      (address.ss_family != AF_INET && address.ss_family != AF_INET6) ||
      getnameinfo(any, size, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0 ||
      !absl::SimpleAtoi(absl::string_view(port), &number)) {
    return {};
  }
  return {host, number};
}

int Find(const mg_request_info& info) {
  const std::pair<std::string, int> caller(info.remote_addr, info.remote_port);
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  for (const std::filesystem::directory_iterator end; !error && files != end;
       files.increment(error)) {
    int file = -1;
    if (absl::SimpleAtoi(files->path().filename().string(), &file) &&
        EndOf(file, getpeername) == caller &&
        EndOf(file, getsockname).second == info.server_port) {
      return file;
    }
  }
  return -1;
}

}  // namespace

CallerSocket::CallerSocket(const mg_connection* connection)
    : socket_(Find(*mg_get_request_info(connection))) {}

bool CallerSocket::HasLeft() const {
  pollfd wait = {socket_, POLLRDHUP, 0};
  return poll(&wait, 1, 0) > 0;
}

}  // namespace comera::worker
