// Browsers' sessions: the token in a cookie.
//
// The cookie is the token itself, so that a session outlives the server and is
// known to every coordinator, and ends when the token does. Tokens of single
// sign-on are too long for it: then it is the name of a session that the server
// keeps (server/auth/oidc/browser_sign_in.h).
#ifndef COMERA_SERVER_HTTP_SESSION_H_
#define COMERA_SERVER_HTTP_SESSION_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/http/http_message.h"

namespace comera::server {

// The token to sign in with: of the header Authorization, else of the body
// {"token": "..."}. InvalidArgument: neither is there; Unauthenticated: what no
// token can be.
absl::StatusOr<std::string> ParseSession(const HttpRequest& request);

// How long browsers keep a session.
inline constexpr absl::Duration kSession = absl::Hours(12);

// Set-Cookie for a session of this token; empty: for its end. Browsers keep it
// for `lifetime`, scripts cannot read it, and other sites cannot use it.
std::string SessionCookie(const HttpRequest& request, const std::string& token,
                          absl::Duration lifetime = kSession);

// The value of the first cookie of this name; nothing: there is none.
std::optional<std::string> FindCookie(const HttpRequest& request,
                                      absl::string_view name);

// The session's token; nothing: there is no session.
std::optional<std::string> SessionToken(const HttpRequest& request);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_SESSION_H_
