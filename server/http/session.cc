// Makes and reads the cookies of browsers' sessions.
#include "server/http/session.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/json.h"
#include "nlohmann/json.hpp"

namespace comera::server {
namespace {

constexpr char kCookie[] = "comera_session";
// Browsers take such a name only from HTTPS, and from no other host.
constexpr char kSecureCookie[] = "__Host-comera_session";
constexpr size_t kMaxToken = 200;
// Nobody has shown a token yet, and what JSON takes is a multiple of its text.
constexpr size_t kMaxBody = 4096;
constexpr char kScheme[] = "Bearer ";

std::string CookieName(const HttpRequest& request) {
  return request.tls ? kSecureCookie : kCookie;
}

}  // namespace

absl::StatusOr<std::string> ParseSession(const HttpRequest& request) {
  std::string token;
  const std::string* header = FindHeader(request.headers, "authorization");
  if (header != nullptr && absl::StartsWithIgnoreCase(*header, kScheme)) {
    token = header->substr(sizeof(kScheme) - 1);
  } else {
    if (request.body.size() > kMaxBody) {
      return absl::InvalidArgumentError(
          absl::StrCat("the body has more than ", kMaxBody, " bytes"));
    }
    const nlohmann::json json = ParseJson(request.body);
    if (!json.is_object() || !json.contains("token") ||
        !json["token"].is_string()) {
      return absl::InvalidArgumentError(
          "token: missing: the body is {\"token\": \"...\"}");
    }
    token = json["token"].get<std::string>();
  }
  // Others must stand neither in a cookie nor in metadata.
  const bool good =
      !token.empty() && token.size() <= kMaxToken &&
      std::all_of(token.begin(), token.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || c == '_';
      });
  if (!good) return absl::UnauthenticatedError("this is no token");
  return token;
}

std::string SessionCookie(const HttpRequest& request, const std::string& token,
                          absl::Duration lifetime) {
  return absl::StrCat(CookieName(request), "=", token,
                      "; Path=/; HttpOnly; SameSite=Strict; Max-Age=",
                      token.empty() ? 0 : absl::ToInt64Seconds(lifetime),
                      request.tls ? "; Secure" : "");
}

std::optional<std::string> SessionToken(const HttpRequest& request) {
  return FindCookie(request, CookieName(request));
}

std::optional<std::string> FindCookie(const HttpRequest& request,
                                      absl::string_view name_of_cookie) {
  const std::string prefix = absl::StrCat(name_of_cookie, "=");
  for (const auto& [name, value] : request.headers) {
    if (!absl::EqualsIgnoreCase(name, "cookie")) continue;
    for (absl::string_view one : absl::StrSplit(value, ';')) {
      one = absl::StripAsciiWhitespace(one);
      if (absl::ConsumePrefix(&one, prefix) && !one.empty()) {
        return std::string(one);
      }
    }
  }
  return std::nullopt;
}

}  // namespace comera::server
