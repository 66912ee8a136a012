// Reads requests and writes answers of CivetWeb's connections.

#include "worker/completions/http_exchange.h"

#include <strings.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "civetweb.h"
#include "common/loopback.h"
#include "worker/predict/caller_token.h"

namespace comera::worker {
namespace {

constexpr int64_t kMostBody = int64_t{4} << 20;
// Bodies of at most this size are taken whatever others hold, so that a few
// senders of large ones, whom nobody knows yet, do not shut out everybody.
constexpr int64_t kSmallBody = int64_t{64} << 10;
// What is read of a body that is refused, so that its sender, who may not read
// before all is sent, gets the answer.
constexpr int64_t kMostDiscarded = int64_t{16} << 20;
constexpr absl::Duration kBodyTimeout = absl::Seconds(30);
// CivetWeb waits until a piece is full as long as any of it arrives: pieces are
// small, so that a slow sender cannot keep a thread for long.
constexpr size_t kPiece = 8;
// CivetWeb writes as long as anything is read in ten seconds: it gets little at
// once, so that a slow reader cannot keep a thread for long.
constexpr size_t kSlice = 4096;
constexpr absl::Duration kMostSendTime = absl::Minutes(2);
constexpr absl::Duration kKeepAlive = absl::Seconds(5);

// Sets `value` to the header's; returns how often the header is there.
int FindHeader(const mg_request_info& info, const char* name,
               std::string* value) {
  int found = 0;
  for (int i = 0; i < info.num_headers; ++i) {
    if (strcasecmp(info.http_headers[i].name, name) != 0) continue;
    if (found++ == 0) *value = info.http_headers[i].value;
  }
  return found;
}

// Whether `host`, with or without a port, is an address or means this machine.
bool IsNoName(absl::string_view host) {
  const size_t bracket = host.rfind(']');
  const size_t colon =
      host.find(':', bracket == absl::string_view::npos ? 0 : bracket);
  const std::string name = absl::AsciiStrToLower(host.substr(0, colon));
  if (name.empty()) return false;
  return IsLoopback(name) || name[0] == '[' ||
         name.find_first_not_of("0123456789.") == std::string::npos;
}

// A browser would let a page of any site call this machine in its user's name;
// the page of a site whose name leads here would even get the answer.
absl::Status CheckSite(const mg_request_info& info) {
  std::string host, origin;
  if (FindHeader(info, "host", &host) != 1 || !IsNoName(host)) {
    return absl::PermissionDeniedError(
        "without a token, Host must be an address or localhost");
  }
  if (FindHeader(info, "origin", &origin) == 0) return absl::OkStatus();
  if (absl::EqualsIgnoreCase(origin, absl::StrCat("http://", host))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      "without a token, a page of another site may not call");
}

// Returns false if the reader has gone or has not taken all soon after
// `deadline`.
bool WriteAll(mg_connection* connection, absl::string_view text,
              absl::Time deadline) {
  while (!text.empty()) {
    const absl::string_view slice = text.substr(0, kSlice);
    if (mg_write(connection, slice.data(), slice.size()) !=
        static_cast<int>(slice.size())) {
      return false;
    }
    text.remove_prefix(slice.size());
    if (!text.empty() && absl::Now() > deadline) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> TokenOfRequest(const mg_connection* connection) {
  const mg_request_info& info = *mg_get_request_info(connection);
  std::string authorization;
  if (FindHeader(info, "authorization", &authorization) > 1) {
    return absl::UnauthenticatedError("two headers Authorization");
  }
  const absl::string_view address = info.remote_addr;
  const std::string peer = absl::StrContains(address, ':')
                               ? absl::StrCat("ipv6:[", address, "]:0")
                               : absl::StrCat("ipv4:", address, ":0");
  absl::StatusOr<std::string> token =
      TokenOfCall(authorization, peer, /*has_certificate=*/false);
  if (token.ok() && token->empty()) {
    const absl::Status site = CheckSite(info);
    if (!site.ok()) return site;
  }
  return token;
}

absl::StatusOr<JsonBody> ReadJsonBody(mg_connection* connection,
                                      CallBudget* budget) {
  const mg_request_info& info = *mg_get_request_info(connection);
  std::string type;
  FindHeader(info, "content-type", &type);
  // Other types need no leave of this side to be sent by a page of another
  // site.
  const std::string kind =
      absl::AsciiStrToLower(type.substr(0, type.find(';')));
  if (absl::StripAsciiWhitespace(kind) != "application/json") {
    return absl::InvalidArgumentError("Content-Type must be application/json");
  }
  // CivetWeb reads the size of a chunk for as long as any of it arrives.
  if (info.content_length < 0) {
    return absl::InvalidArgumentError("Content-Length is missing");
  }
  JsonBody body;
  absl::Status refused;
  if (info.content_length > kMostBody) {
    refused = absl::OutOfRangeError(
        absl::StrCat("the body has more than ", kMostBody, " bytes"));
  } else if (info.content_length > kSmallBody) {
    absl::StatusOr<CallBudget::Share> share = budget->Take(info.content_length);
    refused = share.status();
    if (share.ok()) body.share.emplace(*std::move(share));
  }
  const absl::Time end = absl::Now() + kBodyTimeout;
  int64_t size = 0;
  char piece[kPiece];
  int got;
  while ((got = mg_read(connection, piece, sizeof(piece))) > 0) {
    size += got;
    if (refused.ok()) body.text.append(piece, static_cast<size_t>(got));
    if (size > kMostDiscarded) break;
    if (absl::Now() > end) {
      return absl::DeadlineExceededError("the body does not arrive in time");
    }
  }
  if (!refused.ok()) return refused;
  if (got < 0 || size != info.content_length) {
    return absl::UnavailableError("the body has not arrived");
  }
  return body;
}

void SendJson(mg_connection* connection, int status, absl::string_view json) {
  const std::string answer = absl::StrCat(
      "HTTP/1.1 ", status, " ", mg_get_response_code_text(connection, status),
      "\r\nContent-Type: application/json\r\nContent-Length: ", json.size(),
      "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
      status == 401 ? "WWW-Authenticate: Bearer\r\n" : "",
      "Connection: close\r\n\r\n", json);
  // A reader who has gone needs no answer.
  WriteAll(connection, answer, absl::Now() + kMostSendTime);
}

void SendError(mg_connection* connection, const HttpError& error) {
  SendJson(connection, error.status, ErrorJson(error));
}

EventStream::EventStream(mg_connection* connection, absl::Time deadline)
    : connection_(connection), deadline_(deadline), last_(absl::Now()) {}

bool EventStream::Write(absl::string_view text) {
  if (broken_) return false;
  std::string all;
  if (!begun_) {
    all =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n";
  }
  begun_ = true;
  absl::StrAppend(&all, text);
  last_ = absl::Now();
  broken_ = !WriteAll(connection_, all, deadline_);
  return !broken_;
}

bool EventStream::Send(absl::string_view data) {
  return Write(absl::StrCat("data: ", data, "\n\n"));
}

bool EventStream::KeepAlive() {
  if (absl::Now() - last_ < kKeepAlive) return !broken_;
  return Write(":\n\n");
}

}  // namespace comera::worker
