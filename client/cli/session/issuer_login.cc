// Signs in at an issuer by a redirect to loopback (RFC 8252), and refreshes
// what it gave.
#include "client/cli/session/issuer_login.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "client/cli/session/redirect_listener.h"
#include "common/files.h"
#include "common/openid/provider.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

constexpr absl::Duration kRefreshBefore = absl::Minutes(1);

// Holds a lock of the file beside the login until it goes.
class LoginLock {
 public:
  explicit LoginLock(const std::string& path)
      : file_(open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC,
                   0600)) {
    // Without it, several processes may ask the issuer; one of them has to sign
    // in again then.
    if (file_ >= 0) (void)flock(file_, LOCK_EX);
  }
  ~LoginLock() {
    if (file_ >= 0) close(file_);
  }
  LoginLock(const LoginLock&) = delete;
  LoginLock& operator=(const LoginLock&) = delete;

 private:
  const int file_;
};

bool IsFresh(const Login& login) {
  return login.refresh_token.empty() ||
         ExpiryOf(login.token) > absl::Now() + kRefreshBefore;
}

}  // namespace

absl::StatusOr<OpenIdTokens> SignInAtIssuer(
    const std::string& issuer, const std::string& client_id,
    const std::function<void(const std::string& url)>& show,
    absl::Duration limit) {
  RETURN_IF_ERROR(CheckIssuer(issuer));
  ASSIGN_OR_RETURN(const OpenIdProvider provider, FetchProvider(issuer));
  ASSIGN_OR_RETURN(const std::unique_ptr<RedirectListener> listener,
                   RedirectListener::Open());
  CodeRequest request = NewCodeRequest(client_id, listener->uri());
  request.scopes.push_back("offline_access");
  show(AuthorizationUrl(provider, request));
  std::string code;
  RETURN_IF_ERROR(listener->Await(
      [&](const std::string& query) {
        ASSIGN_OR_RETURN(code, ReadCallback(provider, request, query));
        return absl::OkStatus();
      },
      absl::Now() + limit));
  return RedeemCode(provider, request, code);
}

absl::Status RefreshLogin(const std::string& path, Login* login) {
  if (IsFresh(*login)) return absl::OkStatus();
  const LoginLock lock(path);
  // Another process may have done it, or signed in elsewhere, meanwhile.
  const Login stored = ReadLogin(path);
  if (stored.server != login->server || stored.issuer != login->issuer) {
    return absl::OkStatus();
  }
  *login = stored;
  if (IsFresh(*login)) return absl::OkStatus();
  RETURN_IF_ERROR(CheckIssuer(login->issuer));
  ASSIGN_OR_RETURN(const OpenIdProvider provider, FetchProvider(login->issuer));
  ASSIGN_OR_RETURN(
      const OpenIdTokens tokens,
      RefreshTokens(provider, login->client_id, login->refresh_token));
  login->token = tokens.id_token;
  if (!tokens.refresh_token.empty()) {
    login->refresh_token = tokens.refresh_token;
  }
  return WriteLogin(path, *login);
}

}  // namespace comera::client
