// Finds the token in a call's authorization, and the callers that need none.

#include "worker/predict/caller_token.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace comera::worker {
namespace {

constexpr size_t kMaxToken = 4096;

}  // namespace

absl::StatusOr<std::string> TokenOfCall(const std::string& authorization,
                                        const std::string& peer,
                                        bool has_certificate) {
  if (authorization.empty()) {
    const bool local = absl::StartsWith(peer, "ipv4:127.") ||
                       absl::StartsWith(peer, "ipv6:[::1]") ||
                       absl::StartsWith(peer, "ipv6:%5B::1%5D") ||
                       absl::StartsWith(peer, "unix:");
    if (local || has_certificate) return std::string();
    return absl::UnauthenticatedError(
        "without a token only callers on this machine are served");
  }
  absl::string_view token = authorization;
  if (!absl::ConsumePrefix(&token, "Bearer ") || token.empty() ||
      token.size() > kMaxToken ||
      std::any_of(token.begin(), token.end(),
                  [](char c) { return c <= ' ' || c > '~'; })) {
    return absl::UnauthenticatedError("malformed authorization");
  }
  return std::string(token);
}

}  // namespace comera::worker
