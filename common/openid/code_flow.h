// Signing in with a browser: the authorization code flow with PKCE (OpenID
// Connect Core 1.0 §3.1, RFC 7636) of a public client.
//
//   CodeRequest request = NewCodeRequest(client_id, redirect_uri);
//   // The browser goes to AuthorizationUrl(provider, request) and comes back
//   to
//   // the redirect URI with a query.
//   ASSIGN_OR_RETURN(code, ReadCallback(provider, request, query));
//   ASSIGN_OR_RETURN(tokens, RedeemCode(provider, request, code));
#ifndef COMERA_COMMON_OPENID_CODE_FLOW_H_
#define COMERA_COMMON_OPENID_CODE_FLOW_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/openid/provider.h"

namespace comera {

// One attempt to sign in.
struct CodeRequest {
  std::string client_id;
  std::string redirect_uri;
  // Besides `openid`: those of them that the provider knows are asked for.
  std::vector<std::string> scopes = {"profile", "email", "groups"};
  // What nobody else can guess: the answer must carry the first, the token the
  // second, and only who knows the third can redeem the code.
  std::string state;
  std::string nonce;
  std::string verifier;
};

// 256 random bits in the characters of URLs.
std::string RandomText();

// With fresh secrets.
CodeRequest NewCodeRequest(const std::string& client_id,
                           const std::string& redirect_uri);

std::string AuthorizationUrl(const OpenIdProvider& provider,
                             const CodeRequest& request);

// The code in the query of a redirect. InvalidArgument: it is none of this
// request's. PermissionDenied: the provider says no.
absl::StatusOr<std::string> ReadCallback(const OpenIdProvider& provider,
                                         const CodeRequest& request,
                                         absl::string_view query);

struct OpenIdTokens {
  // A JSON Web Token, whose signature has not been checked.
  std::string id_token;
  // Empty: the provider gives none.
  std::string refresh_token;
};

// Exchanges the code for tokens, of which the first is for this client and has
// the request's nonce. Blocks. PermissionDenied: the provider refuses the code,
// or answers with a token of something else. Unavailable.
absl::StatusOr<OpenIdTokens> RedeemCode(
    const OpenIdProvider& provider, const CodeRequest& request,
    const std::string& code, const std::atomic<bool>* cancelled = nullptr);

// Exchanges a refresh token for fresh tokens. Blocks. PermissionDenied: the
// provider refuses it. Unavailable.
absl::StatusOr<OpenIdTokens> RefreshTokens(const OpenIdProvider& provider,
                                           const std::string& client_id,
                                           const std::string& refresh_token);

// When a token ends, by its own words; InfinitePast: it is none.
absl::Time ExpiryOf(absl::string_view id_token);

}  // namespace comera

#endif  // COMERA_COMMON_OPENID_CODE_FLOW_H_
