// Browsers' sessions: the token in a cookie.
//
// The cookie is the token itself, so that a session outlives the server and is
// known to every coordinator, and ends when the token does.
#ifndef COMERA_SERVER_HTTP_SESSION_H_
#define COMERA_SERVER_HTTP_SESSION_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/http/http_message.h"

namespace comera::server {

// The token to sign in with: of the header Authorization, else of the body
// {"token": "..."}. InvalidArgument: neither is there; Unauthenticated: what no
// token can be.
absl::StatusOr<std::string> ParseSession(const HttpRequest& request);

// Set-Cookie for a session of this token; empty: for its end. Browsers keep it
// for twelve hours, scripts cannot read it, and other sites cannot use it.
std::string SessionCookie(const HttpRequest& request, const std::string& token);

// The session's token; nothing: there is no session.
std::optional<std::string> SessionToken(const HttpRequest& request);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_SESSION_H_
