// Waits on loopback for the browser that an issuer sends back.
#include "client/cli/session/redirect_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files.h"

namespace comera::client {
namespace {

constexpr char kPath[] = "/callback";
constexpr size_t kMaxHead = 16 << 10;
constexpr absl::Duration kReadLimit = absl::Seconds(5);

// Whether something can be read before the deadline.
bool WaitToRead(int file, absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    pollfd one = {file, POLLIN, 0};
    const int millis = static_cast<int>(
        std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 60000));
    const int ready = poll(&one, 1, millis);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

// The head of a request; what came of it within the limit.
std::string ReadHead(int connection) {
  std::string head;
  const absl::Time deadline = absl::Now() + kReadLimit;
  while (head.size() < kMaxHead && !absl::StrContains(head, "\r\n\r\n") &&
         WaitToRead(connection, deadline)) {
    char buffer[4096];
    const ssize_t size = recv(connection, buffer, sizeof(buffer), 0);
    if (size <= 0) break;
    head.append(buffer, static_cast<size_t>(size));
  }
  return head;
}

// The query of "GET /callback?QUERY HTTP/1.1"; nothing: another request.
std::optional<std::string> QueryOf(absl::string_view head) {
  if (!absl::ConsumePrefix(&head, absl::StrCat("GET ", kPath, "?"))) {
    return std::nullopt;
  }
  const size_t end = head.find(' ');
  if (end == absl::string_view::npos) return std::nullopt;
  return std::string(head.substr(0, end));
}

void Answer(int connection, absl::string_view code, absl::string_view text) {
  const std::string answer = absl::StrCat(
      "HTTP/1.1 ", code,
      "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ",
      text.size(),
      "\r\nCache-Control: no-store\r\nConnection: close\r\n"
      "X-Content-Type-Options: nosniff\r\n\r\n",
      text);
  // The browser may be gone.
  (void)send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedirectListener>> RedirectListener::Open() {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return ErrnoStatus(errno, "a port of 127.0.0.1");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(file, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(file, 4) != 0 ||
      getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const int error = errno;
    close(file);
    return ErrnoStatus(error, "a port of 127.0.0.1");
  }
  return std::unique_ptr<RedirectListener>(
      new RedirectListener(file, ntohs(address.sin_port)));
}

RedirectListener::~RedirectListener() { close(socket_); }

std::string RedirectListener::uri() const {
  return absl::StrCat("http://127.0.0.1:", port_, kPath);
}

absl::Status RedirectListener::Await(
    const std::function<absl::Status(const std::string& query)>& take,
    absl::Time deadline) {
  while (WaitToRead(socket_, deadline)) {
    const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    const auto query = QueryOf(ReadHead(connection));
    const absl::Status taken =
        query ? take(*query) : absl::InvalidArgumentError("");
    if (taken.ok()) {
      Answer(connection, "200 OK",
             "You are signed in: go back to the terminal, this page may be "
             "closed.\n");
    } else if (query) {
      Answer(connection, "400 Bad Request",
             absl::StrCat("comera: ", taken.message(), "\n"));
    } else {
      Answer(connection, "404 Not Found", "There is nothing here.\n");
    }
    close(connection);
    if (!absl::IsInvalidArgument(taken)) return taken;
  }
  return absl::DeadlineExceededError("nobody signed in in time");
}

}  // namespace comera::client
