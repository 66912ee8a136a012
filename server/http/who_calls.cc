// Reads a request's credentials and checks where it comes from.
#include "server/http/who_calls.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/loopback.h"
#include "server/http/session.h"

namespace comera::server {
namespace {

// The longest is a token of single sign-on (kMaxJsonWebToken), of which gRPC
// takes no longer one either.
constexpr size_t kMaxCredentials = (7 << 10) + 16;

// gRPC ends the process over others in metadata.
bool IsPrintable(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= 0x20 && c <= 0x7e; });
}

// "host:port", "host", "[::1]:port" without the port; nothing: malformed.
std::optional<std::string> HostName(std::string_view host) {
  if (host.empty() || host.size() > 255) return std::nullopt;
  const size_t bracket = host.rfind(']');
  const size_t colon =
      host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string name(host.substr(0, colon));
  if (name.empty() || (name[0] == '[') != (bracket != std::string_view::npos)) {
    return std::nullopt;
  }
  absl::AsciiStrToLower(&name);
  return name;
}

bool IsAddress(const std::string& name) {
  if (name[0] == '[') return true;
  return name.find_first_not_of("0123456789.") == std::string::npos;
}

bool IsNamed(const std::string& name, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&name](const auto& one) {
    return absl::EqualsIgnoreCase(one, name);
  });
}

// "https://host:port" without the scheme.
std::optional<std::string> Authority(const std::string& origin) {
  const size_t slashes = origin.find("://");
  if (slashes == std::string::npos) return std::nullopt;
  return origin.substr(slashes + 3);
}

}  // namespace

absl::StatusOr<HttpCredentials> FindCredentials(const HttpRequest& request) {
  HttpCredentials result;
  for (const auto& [name, value] : request.headers) {
    if (!absl::EqualsIgnoreCase(name, "authorization")) continue;
    if (result.authorization) {
      return absl::UnauthenticatedError("two headers Authorization");
    }
    result.authorization = value;
  }
  if (!result.authorization) {
    const auto token = SessionToken(request);
    if (token) {
      result.authorization = absl::StrCat("Bearer ", *token);
      result.from_cookie = true;
    }
  }
  if (result.authorization &&
      (!IsPrintable(*result.authorization) ||
       result.authorization->size() > kMaxCredentials)) {
    return absl::UnauthenticatedError(
        "authorization: must be one \"Bearer TOKEN\"");
  }
  return result;
}

absl::Status CheckSite(const HttpRequest& request, const HostPolicy& policy,
                       bool from_cookie) {
  const std::string* host = FindHeader(request.headers, "host");
  const auto name = HostName(host == nullptr ? "" : *host);
  if (!name) return absl::InvalidArgumentError("Host: malformed");
  if (policy.known_hosts_only && !IsAddress(*name) && !IsLoopback(*name) &&
      !IsNamed(*name, policy.names)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "this server has no tokens, and is not known as \"",
        absl::CEscape(*name),
        "\": a page of another site could use it; --http_host makes it known"));
  }
  const std::string* origin = FindHeader(request.headers, "origin");
  if (origin == nullptr) {
    const bool changes = request.method != "GET";
    if (!from_cookie || !changes) return absl::OkStatus();
    return absl::PermissionDeniedError(
        "a change with a session's cookie needs the header Origin");
  }
  const auto authority = Authority(*origin);
  if (authority && absl::EqualsIgnoreCase(*authority, *host)) {
    return absl::OkStatus();
  }
  // A proxy may write its own Host.
  const auto origin_name =
      authority ? HostName(*authority) : std::optional<std::string>();
  if (origin_name && IsNamed(*origin_name, policy.names)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      "a page of another site may not use this server");
}

}  // namespace comera::server
