// What an HTTP request says about its sender, and whether a browser may send it
// for somebody else.
#ifndef COMERA_SERVER_HTTP_WHO_CALLS_H_
#define COMERA_SERVER_HTTP_WHO_CALLS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/http/http_message.h"

namespace comera::server {

struct HttpCredentials {
  // Value of the header authorization; nothing: none was sent.
  std::optional<std::string> authorization;
  // It is that of a browser's session.
  bool from_cookie = false;
};

// From the header Authorization, else from the session's cookie.
// Unauthenticated: several, or what no token can be.
absl::StatusOr<HttpCredentials> FindCredentials(const HttpRequest& request);

struct HostPolicy {
  // Names by which proxies and people reach this server.
  std::vector<std::string> names;
  // Without tokens a page of another site, whose name was made to lead here,
  // could use the server: only addresses, localhost and `names` are answered.
  bool known_hosts_only = false;
};

// PermissionDenied: a browser sends this for a page of another site, or may;
// InvalidArgument: malformed.
absl::Status CheckSite(const HttpRequest& request, const HostPolicy& policy,
                       bool from_cookie);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_WHO_CALLS_H_
