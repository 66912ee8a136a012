// Builds and reads the messages of the authorization code flow.
#include "common/openid/code_flow.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/http/web_fetch.h"
#include "common/json.h"
#include "common/log.h"
#include "common/openid/json_web_token.h"
#include "common/status_macros.h"

namespace comera {
namespace {

constexpr size_t kMaxQuery = 8 << 10;
constexpr size_t kMaxRefreshToken = 8 << 10;
constexpr size_t kMaxErrorText = 200;

std::string Challenge(const std::string& verifier) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(verifier.data()),
         verifier.size(), digest);
  return absl::WebSafeBase64Escape(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

// Nothing: malformed.
std::optional<std::string> DecodeForm(absl::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      result += ' ';
    } else if (text[i] != '%') {
      result += text[i];
    } else {
      const absl::string_view digits = text.substr(i + 1, 2);
      if (digits.size() != 2 || !absl::ascii_isxdigit(digits[0]) ||
          !absl::ascii_isxdigit(digits[1])) {
        return std::nullopt;
      }
      result += absl::HexStringToBytes(digits);
      i += 2;
    }
  }
  return result;
}

// Reads the parameters of a query; the first counts of each name.
std::optional<std::map<std::string, std::string>> ReadQuery(
    absl::string_view query) {
  std::map<std::string, std::string> fields;
  if (query.size() > kMaxQuery) return std::nullopt;
  for (const absl::string_view field :
       absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> both =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    const auto name = DecodeForm(both.first);
    const auto value = DecodeForm(both.second);
    if (!name || !value) return std::nullopt;
    fields.emplace(*name, *value);
  }
  return fields;
}

// What a provider says, for people.
std::string ErrorText(absl::string_view text) {
  return absl::CEscape(text.substr(0, kMaxErrorText));
}

bool IsEqual(const std::string& a, const std::string& b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string TextOf(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>()
                                                   : std::string();
}

absl::StatusOr<OpenIdTokens> AskForTokens(
    const OpenIdProvider& provider,
    std::vector<std::pair<std::string, std::string>> form,
    const std::atomic<bool>* cancelled) {
  WebRequest web;
  web.url = provider.token_endpoint;
  web.plain_http = provider.plain_http();
  web.form = std::move(form);
  web.cancelled = cancelled;
  ASSIGN_OR_RETURN(const WebAnswer answer, FetchWeb(web));
  const nlohmann::json json = ParseJson(answer.body);
  if (answer.code != 200) {
    const std::string error =
        json.is_object() ? ErrorText(TextOf(json, "error")) : "";
    const std::string text =
        absl::StrCat("the issuer answers with HTTP status ", answer.code,
                     error.empty() ? "" : ": ", error);
    if (answer.code >= 500 || answer.code == 429) {
      return absl::UnavailableError(text);
    }
    return absl::PermissionDeniedError(text);
  }
  OpenIdTokens tokens;
  if (json.is_object()) {
    tokens.id_token = TextOf(json, "id_token");
    tokens.refresh_token = TextOf(json, "refresh_token");
  }
  if (tokens.id_token.empty()) {
    return absl::PermissionDeniedError("the issuer's answer has no id_token");
  }
  if (tokens.refresh_token.size() > kMaxRefreshToken) {
    return absl::PermissionDeniedError(
        absl::StrCat("the issuer's refresh token has more than ",
                     kMaxRefreshToken, " bytes"));
  }
  return tokens;
}

}  // namespace

std::string RandomText() {
  unsigned char bytes[32];
  CHECK(RAND_bytes(bytes, sizeof(bytes)) == 1)
      << "the system gives no random numbers";
  return absl::WebSafeBase64Escape(
      absl::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes)));
}

CodeRequest NewCodeRequest(const std::string& client_id,
                           const std::string& redirect_uri) {
  CodeRequest request;
  request.client_id = client_id;
  request.redirect_uri = redirect_uri;
  request.state = RandomText();
  request.nonce = RandomText();
  request.verifier = RandomText();
  return request;
}

std::string AuthorizationUrl(const OpenIdProvider& provider,
                             const CodeRequest& request) {
  std::string scope = "openid";
  bool offline = false;
  for (const std::string& one : request.scopes) {
    if (std::find(provider.scopes.begin(), provider.scopes.end(), one) ==
        provider.scopes.end()) {
      continue;
    }
    offline |= one == "offline_access";
    absl::StrAppend(&scope, " ", one);
  }
  const std::string& endpoint = provider.authorization_endpoint;
  std::string url =
      absl::StrCat(endpoint, absl::StrContains(endpoint, '?') ? "&" : "?",
                   "response_type=code&code_challenge_method=S256");
  const auto add = [&url](const char* name, const std::string& value) {
    absl::StrAppend(&url, "&", name, "=", EncodeForm(value));
  };
  add("client_id", request.client_id);
  add("redirect_uri", request.redirect_uri);
  add("scope", scope);
  add("state", request.state);
  add("nonce", request.nonce);
  add("code_challenge", Challenge(request.verifier));
  // Core 1.0 §11: without it the scope is to be ignored.
  if (offline) add("prompt", "consent");
  return url;
}

absl::StatusOr<std::string> ReadCallback(const OpenIdProvider& provider,
                                         const CodeRequest& request,
                                         absl::string_view query) {
  const auto fields = ReadQuery(query);
  const auto field = [&fields](const char* name) {
    const auto found = fields->find(name);
    return found == fields->end() ? std::string() : found->second;
  };
  if (!fields || request.state.empty() ||
      !IsEqual(field("state"), request.state)) {
    return absl::InvalidArgumentError(
        "state: this is no answer to the attempt to sign in that was begun "
        "here: begin again");
  }
  // RFC 9207: the answer is another issuer's.
  if (fields->count("iss") > 0 && field("iss") != provider.issuer) {
    return absl::InvalidArgumentError(
        absl::StrCat("iss: must be ", provider.issuer));
  }
  if (!field("error").empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the issuer refuses: ", ErrorText(field("error")),
                     field("error_description").empty() ? "" : ": ",
                     ErrorText(field("error_description"))));
  }
  if (field("code").empty()) {
    return absl::InvalidArgumentError("code: missing");
  }
  return field("code");
}

absl::StatusOr<OpenIdTokens> RedeemCode(const OpenIdProvider& provider,
                                        const CodeRequest& request,
                                        const std::string& code,
                                        const std::atomic<bool>* cancelled) {
  ASSIGN_OR_RETURN(OpenIdTokens tokens,
                   AskForTokens(provider,
                                {{"grant_type", "authorization_code"},
                                 {"code", code},
                                 {"redirect_uri", request.redirect_uri},
                                 {"client_id", request.client_id},
                                 {"code_verifier", request.verifier}},
                                cancelled));
  ASSIGN_OR_RETURN(const JsonWebToken token,
                   ParseJsonWebToken(tokens.id_token));
  if (request.nonce.empty() ||
      !IsEqual(TextOf(token.claims, "nonce"), request.nonce)) {
    return absl::PermissionDeniedError(
        "nonce: the issuer's token belongs to another attempt to sign in");
  }
  return tokens;
}

absl::StatusOr<OpenIdTokens> RefreshTokens(const OpenIdProvider& provider,
                                           const std::string& client_id,
                                           const std::string& refresh_token) {
  return AskForTokens(provider,
                      {{"grant_type", "refresh_token"},
                       {"refresh_token", refresh_token},
                       {"client_id", client_id}},
                      nullptr);
}

absl::Time ExpiryOf(absl::string_view id_token) {
  const auto token = ParseJsonWebToken(id_token);
  if (!token.ok()) return absl::InfinitePast();
  const auto found = token->claims.find("exp");
  if (found == token->claims.end() || !found->is_number()) {
    return absl::InfinitePast();
  }
  return absl::UnixEpoch() + absl::Seconds(found->get<double>());
}

}  // namespace comera
