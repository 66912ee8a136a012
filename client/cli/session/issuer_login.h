// Signs in at the issuer of single sign-on, and keeps the login fresh.
#ifndef COMERA_CLIENT_CLI_SESSION_ISSUER_LOGIN_H_
#define COMERA_CLIENT_CLI_SESSION_ISSUER_LOGIN_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/session/login_file.h"
#include "common/openid/code_flow.h"

namespace comera::client {

// Signs in with a browser on this machine: shows it the issuer's URL by `show`,
// and waits until the issuer sends it back to a port of 127.0.0.1 that is open
// meanwhile. Errors of common/openid; DeadlineExceeded: nobody came back within
// `limit`.
absl::StatusOr<OpenIdTokens> SignInAtIssuer(
    const std::string& issuer, const std::string& client_id,
    const std::function<void(const std::string& url)>& show,
    absl::Duration limit);

// Replaces the token of a login by another one of its issuer, and stores it, if
// it ends within a minute. Calls at once of several processes ask the issuer
// once, because a refresh token may be good for one use. Does nothing to logins
// without a refresh token.
absl::Status RefreshLogin(const std::string& path, Login* login);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_ISSUER_LOGIN_H_
