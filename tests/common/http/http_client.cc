// A small blocking HTTP client for tests.
#include "tests/common/http/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace comera {
namespace {

bool Has(const HttpClient::Headers& headers, const std::string& name) {
  for (const auto& [key, value] : headers) {
    if (absl::EqualsIgnoreCase(key, name)) return true;
  }
  return false;
}

}  // namespace

std::string HttpReply::Header(const std::string& name) const {
  for (const auto& [key, value] : headers) {
    if (absl::EqualsIgnoreCase(key, name)) return value;
  }
  return "";
}

HttpClient::HttpClient(const std::string& address, const std::string& from)
    : address_(address) {
  const size_t colon = address.rfind(':');
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port)) return;
  to.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval timeout = {20, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  inet_pton(AF_INET, from.c_str(), &own.sin_addr);
  if (bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof(own)) != 0 ||
      connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    close(socket_);
    socket_ = -1;
  }
}

HttpClient::~HttpClient() {
  if (socket_ >= 0) close(socket_);
}

void HttpClient::SendRaw(const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count =
        send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return;
    sent += static_cast<size_t>(count);
  }
}

bool HttpClient::Fill() {
  char bytes[16384];
  const ssize_t count = recv(socket_, bytes, sizeof(bytes), 0);
  if (count <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(count));
  return true;
}

std::string HttpClient::ReadRaw(size_t bytes) {
  while (buffer_.size() < bytes && Fill()) {
  }
  std::string raw = buffer_.substr(0, bytes);
  buffer_.erase(0, raw.size());
  return raw;
}

bool HttpClient::IsClosed() {
  char byte;
  const ssize_t count = recv(socket_, &byte, 1, MSG_PEEK);
  // Silence until the timeout is no end.
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

std::string HttpClient::Line() {
  size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!Fill()) return "";
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

HttpReply HttpClient::Begin(const std::string& method,
                            const std::string& target, const Headers& headers,
                            const std::string& body) {
  std::string text = absl::StrCat(method, " ", target, " HTTP/1.1\r\n");
  if (!Has(headers, "Host")) absl::StrAppend(&text, "Host: ", address_, "\r\n");
  for (const auto& [name, value] : headers) {
    absl::StrAppend(&text, name, ": ", value, "\r\n");
  }
  if (!body.empty() && !Has(headers, "Content-Type")) {
    absl::StrAppend(&text, "Content-Type: application/json\r\n");
  }
  if (!body.empty() || method == "POST") {
    absl::StrAppend(&text, "Content-Length: ", body.size(), "\r\n");
  }
  SendRaw(absl::StrCat(text, "\r\n", body));
  return Receive(method == "HEAD");
}

HttpReply HttpClient::Receive(bool head_only) {
  HttpReply reply;
  std::string line;
  do {
    line = Line();
    if (line.size() < 12) return reply;
    if (!absl::SimpleAtoi(line.substr(9, 3), &reply.code)) return reply;
    if (reply.code == 100) Line();
  } while (reply.code == 100);
  for (line = Line(); !line.empty(); line = Line()) {
    const std::pair<std::string, std::string> header =
        absl::StrSplit(line, absl::MaxSplits(": ", 1));
    reply.headers.push_back(header);
  }
  const std::string length = reply.Header("Content-Length");
  chunked_ = reply.Header("Transfer-Encoding") == "chunked";
  until_close_ = !chunked_ && length.empty() && reply.code != 304 &&
                 reply.code != 204 && !head_only;
  left_ = 0;
  if (!chunked_ && !head_only && !length.empty()) {
    left_ = std::strtoull(length.c_str(), nullptr, 10);
  }
  if (head_only) chunked_ = false;
  return reply;
}

std::string HttpClient::ReadPart(bool* cut) {
  *cut = false;
  if (chunked_) {
    size_t size = 0;
    const std::string line = Line();
    if (line.empty()) *cut = true;
    if (line.empty() ||
        (size = std::strtoull(line.c_str(), nullptr, 16)) == 0) {
      if (!line.empty()) Line();
      chunked_ = false;
      return "";
    }
    while (buffer_.size() < size + 2) {
      if (!Fill()) {
        *cut = true;
        return "";
      }
    }
    std::string part = buffer_.substr(0, size);
    buffer_.erase(0, size + 2);
    return part;
  }
  if (until_close_) {
    if (buffer_.empty() && !Fill()) return "";
    return std::exchange(buffer_, "");
  }
  if (left_ == 0) return "";
  if (buffer_.empty() && !Fill()) {
    *cut = true;
    return "";
  }
  std::string part = buffer_.substr(0, left_);
  buffer_.erase(0, part.size());
  left_ -= part.size();
  return part;
}

HttpReply HttpClient::Call(const std::string& method, const std::string& target,
                           const Headers& headers, const std::string& body) {
  HttpReply reply = Begin(method, target, headers, body);
  bool cut = false;
  for (std::string part = ReadPart(&cut); !part.empty();
       part = ReadPart(&cut)) {
    reply.body += part;
  }
  if (cut) reply.code = 0;
  return reply;
}

std::string HttpClient::ReadEvent() {
  while (true) {
    const size_t end = events_.find("\n\n");
    if (end != std::string::npos) {
      std::string event = events_.substr(0, end);
      events_.erase(0, end + 2);
      // Comments and the pause for new connections are no events.
      if (absl::StartsWith(event, ":") || absl::StartsWith(event, "retry:")) {
        continue;
      }
      return event;
    }
    bool cut = false;
    const std::string part = ReadPart(&cut);
    if (part.empty()) return "";
    events_ += part;
  }
}

}  // namespace comera
