// Judges a request by its headers: whose it is, and what it carries.

#include "worker/completions/request_checks.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/loopback.h"
#include "common/status_macros.h"
#include "worker/predict/caller_ticket.h"

namespace comera::worker {
namespace {

// Sets `value` to the first header of that name; returns how often it is there.
int CountHeader(const HttpRequest& request, absl::string_view name,
                std::string* value) {
  int found = 0;
  for (const auto& [key, text] : request.headers) {
    if (!absl::EqualsIgnoreCase(key, name)) continue;
    if (found++ == 0) *value = text;
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
absl::Status CheckSite(const HttpRequest& request) {
  std::string host, origin;
  if (CountHeader(request, "host", &host) != 1 || !IsNoName(host)) {
    return absl::PermissionDeniedError(
        "without a ticket, Host must be an address or localhost");
  }
  if (CountHeader(request, "origin", &origin) == 0) return absl::OkStatus();
  const char* const scheme = request.tls ? "https://" : "http://";
  if (absl::EqualsIgnoreCase(origin, absl::StrCat(scheme, host))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      "without a ticket, a page of another site may not call");
}

// The caller's address in gRPC's form.
std::string PeerOf(const HttpRequest& request) {
  absl::string_view peer = request.peer;
  absl::ConsumePrefix(&peer, "http:");
  return absl::StrCat(absl::StartsWith(peer, "[") ? "ipv6:" : "ipv4:", peer);
}

}  // namespace

absl::StatusOr<std::string> TicketOfRequest(const HttpRequest& request) {
  std::string authorization;
  if (CountHeader(request, "authorization", &authorization) > 1) {
    return absl::UnauthenticatedError("two headers Authorization");
  }
  ASSIGN_OR_RETURN(std::string ticket, TicketOfAuthorization(authorization));
  RETURN_IF_ERROR(
      CheckTicket(ticket, PeerOf(request), /*has_certificate=*/false));
  if (ticket.empty()) RETURN_IF_ERROR(CheckSite(request));
  return ticket;
}

absl::Status CheckJsonBody(const HttpRequest& request) {
  std::string type;
  CountHeader(request, "content-type", &type);
  // Other types need no leave of this side to be sent by a page of another
  // site.
  const std::string kind =
      absl::AsciiStrToLower(type.substr(0, type.find(';')));
  if (absl::StripAsciiWhitespace(kind) == "application/json") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("Content-Type must be application/json");
}

}  // namespace comera::worker
