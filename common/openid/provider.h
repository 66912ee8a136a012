#ifndef COMERA_COMMON_OPENID_PROVIDER_H_
#define COMERA_COMMON_OPENID_PROVIDER_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera {

// What a provider says of itself (OpenID Connect Discovery 1.0).
struct OpenIdProvider {
  std::string issuer;
  std::string authorization_endpoint;
  std::string token_endpoint;
  std::string keys_url;
  // Scopes that it knows.
  std::vector<std::string> scopes;

  // Whether its URLs may be those of http: it runs on this machine.
  bool plain_http() const;
};

// InvalidArgument: the URL is no issuer's. It must be one of https, without
// query and fragment, or one of http on loopback.
absl::Status CheckIssuer(const std::string& url);

// Where an issuer describes itself.
std::string DiscoveryUrl(const std::string& issuer);

// Reads the answer of that URL. Unavailable: it is not the description of this
// issuer, or one of its URLs could be read by others on the way.
absl::StatusOr<OpenIdProvider> ParseProvider(const std::string& issuer,
                                             absl::string_view text);

// Fetches and reads it. Blocks. Errors of FetchWeb and ParseProvider.
absl::StatusOr<OpenIdProvider> FetchProvider(
    const std::string& issuer, const std::atomic<bool>* cancelled = nullptr);

}  // namespace comera

#endif  // COMERA_COMMON_OPENID_PROVIDER_H_
