// Reads what a provider of OpenID Connect says of itself.
#include "common/openid/provider.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/http/web_fetch.h"
#include "common/json.h"
#include "common/loopback.h"
#include "common/status_macros.h"

namespace comera {
namespace {

constexpr size_t kMaxUrl = 1024;
constexpr size_t kMaxScopes = 100;

// Whether others could neither read nor answer what goes to this URL.
bool IsPrivate(absl::string_view url) {
  if (absl::ConsumePrefix(&url, "https://")) {
    return !url.empty() && url[0] != '/';
  }
  if (!absl::ConsumePrefix(&url, "http://")) return false;
  absl::string_view host = url.substr(0, url.find_first_of("/?#"));
  if (absl::StrContains(host, '@')) return false;
  const size_t bracket = host.rfind(']');
  const size_t colon =
      host.find(':', bracket == absl::string_view::npos ? 0 : bracket);
  return IsLoopback(std::string(host.substr(0, colon)));
}

bool IsUrl(const std::string& url) {
  return url.size() <= kMaxUrl &&
         std::all_of(url.begin(), url.end(), [](unsigned char c) {
           return absl::ascii_isgraph(c) && c != '"' && c != '\\' && c != '<' &&
                  c != '>';
         });
}

absl::StatusOr<std::string> UrlOf(const nlohmann::json& json, const char* name,
                                  bool plain_http) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) {
    return absl::UnavailableError(
        absl::StrCat("the issuer's description has no ", name));
  }
  std::string url = found->get<std::string>();
  if (!IsUrl(url) || !IsPrivate(url) ||
      (!plain_http && !absl::StartsWith(url, "https://"))) {
    return absl::UnavailableError(absl::StrCat(
        "the issuer's description has a ", name, " that is no URL of https"));
  }
  return url;
}

}  // namespace

bool OpenIdProvider::plain_http() const {
  return absl::StartsWith(issuer, "http://");
}

absl::Status CheckIssuer(const std::string& url) {
  if (IsUrl(url) && IsPrivate(url) &&
      url.find_first_of("?#@") == std::string::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", url.substr(0, kMaxUrl),
                   "\" is no issuer: expected a URL of https (on this machine "
                   "also of http) without query and fragment"));
}

std::string DiscoveryUrl(const std::string& issuer) {
  return absl::StrCat(absl::StripSuffix(issuer, "/"),
                      "/.well-known/openid-configuration");
}

absl::StatusOr<OpenIdProvider> ParseProvider(const std::string& issuer,
                                             absl::string_view text) {
  const nlohmann::json json = ParseJson(text);
  if (!json.is_object()) {
    return absl::UnavailableError("the issuer's description is no JSON object");
  }
  const auto said = json.find("issuer");
  // Or else one provider could pass for another.
  if (said == json.end() || !said->is_string() ||
      said->get<std::string>() != issuer) {
    return absl::UnavailableError(absl::StrCat(
        "the description at ", DiscoveryUrl(issuer),
        " is that of another issuer: its `issuer` must be exactly ", issuer));
  }
  OpenIdProvider provider;
  provider.issuer = issuer;
  const bool plain = provider.plain_http();
  ASSIGN_OR_RETURN(provider.authorization_endpoint,
                   UrlOf(json, "authorization_endpoint", plain));
  ASSIGN_OR_RETURN(provider.token_endpoint,
                   UrlOf(json, "token_endpoint", plain));
  ASSIGN_OR_RETURN(provider.keys_url, UrlOf(json, "jwks_uri", plain));
  const auto scopes = json.find("scopes_supported");
  if (scopes != json.end() && scopes->is_array()) {
    for (const auto& scope : *scopes) {
      if (scope.is_string() && provider.scopes.size() < kMaxScopes) {
        provider.scopes.push_back(scope.get<std::string>());
      }
    }
  }
  return provider;
}

absl::StatusOr<OpenIdProvider> FetchProvider(
    const std::string& issuer, const std::atomic<bool>* cancelled) {
  WebRequest request;
  request.url = DiscoveryUrl(issuer);
  request.plain_http = absl::StartsWith(issuer, "http://");
  request.cancelled = cancelled;
  ASSIGN_OR_RETURN(const WebAnswer answer, FetchWeb(request));
  if (answer.code != 200) {
    return absl::UnavailableError(
        absl::StrCat(request.url, " answers with HTTP status ", answer.code));
  }
  return ParseProvider(issuer, answer.body);
}

}  // namespace comera
