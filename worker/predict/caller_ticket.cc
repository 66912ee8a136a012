// Judges tickets by their form, and finds the callers that need none.

#include "worker/predict/caller_ticket.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/call_metadata.h"

namespace comera::worker {
namespace {

constexpr size_t kMaxTicket = 4096;

}  // namespace

absl::Status CheckTicket(const std::string& ticket, const std::string& peer,
                         bool has_certificate) {
  if (ticket.empty()) {
    const bool local = absl::StartsWith(peer, "ipv4:127.") ||
                       absl::StartsWith(peer, "ipv6:[::1]") ||
                       absl::StartsWith(peer, "ipv6:%5B::1%5D") ||
                       absl::StartsWith(peer, "unix:");
    if (local || has_certificate) return absl::OkStatus();
    return absl::UnauthenticatedError(
        "without a ticket only callers on this machine are served");
  }
  if (!absl::StartsWith(ticket, kTicketPrefix) || ticket.size() > kMaxTicket ||
      std::any_of(ticket.begin(), ticket.end(),
                  [](char c) { return c <= ' ' || c > '~'; })) {
    return absl::UnauthenticatedError("malformed ticket");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TicketOfAuthorization(
    const std::string& authorization) {
  if (authorization.empty()) return std::string();
  absl::string_view ticket = authorization;
  const bool bearer = absl::ConsumePrefix(&ticket, "Bearer ");
  // Clients that insist on a key send any text, which is as good as none.
  if (bearer && !ticket.empty() && !absl::StartsWith(ticket, "comera")) {
    return std::string();
  }
  if (!bearer || !absl::StartsWith(ticket, kTicketPrefix)) {
    return absl::UnauthenticatedError(
        "a worker takes tickets (`comera ticket MODEL --worker WORKER`), never "
        "a token: whoever runs the worker could use it");
  }
  return std::string(ticket);
}

}  // namespace comera::worker
