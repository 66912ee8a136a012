// Sends browsers to the issuer of single sign-on and takes them back.
#include "server/http/sign_in_pages.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/loopback.h"
#include "server/http/answer.h"
#include "server/http/http_error.h"
#include "server/http/request_message.h"
#include "server/http/session.h"

namespace comera::server {
namespace {

constexpr char kPath[] = "/v1/sso";
constexpr char kLogin[] = "/v1/sso/login";
constexpr char kCallback[] = "/v1/sso/callback";
constexpr char kCookie[] = "comera_sign_in";
constexpr char kSecureCookie[] = "__Secure-comera_sign_in";

const char* CookieName(const HttpRequest& request) {
  return request.tls ? kSecureCookie : kCookie;
}

// Not of SameSite=Strict: the issuer, another site, sends the browser back.
std::string AttemptCookie(const HttpRequest& request,
                          const std::string& value) {
  return absl::StrCat(
      CookieName(request), "=", value, "; Path=", kPath,
      "; HttpOnly; SameSite=Lax; Max-Age=",
      value.empty() ? 0 : absl::ToInt64Seconds(BrowserSignIn::kAttempt),
      request.tls ? "; Secure" : "");
}

// Where the issuer sends the browser back to; it compares this with what it was
// told, so that a false Host leads nowhere. A server that is reached from other
// machines without TLS of its own is behind a proxy that has it.
std::string RedirectUri(const HttpRequest& request) {
  const std::string* host = FindHeader(request.headers, "host");
  const std::string text = host == nullptr ? "" : *host;
  const size_t bracket = text.rfind(']');
  const std::string name = text.substr(
      0, text.find(':', bracket == std::string::npos ? 0 : bracket));
  return absl::StrCat(request.tls || !IsLoopback(name) ? "https" : "http",
                      "://", text, kCallback);
}

HttpResponse Redirect(const std::string& url) {
  HttpResponse response;
  response.code = 303;
  response.headers.emplace_back("Location", url);
  return response;
}

void Refuse(HttpExchange& exchange, const absl::Status& status) {
  SendAnswer(exchange, ErrorResponse(status));
}

void Begin(HttpExchange& exchange, const BrowserSignIn& sign_in) {
  const HttpRequest& request = exchange.request();
  const auto query = ParseQuery(request.query);
  if (!query.ok()) return Refuse(exchange, query.status());
  std::string return_to = "/";
  for (const auto& [name, value] : *query) {
    if (name == "return") return_to = value;
  }
  const auto attempt = sign_in.Begin(RedirectUri(request), return_to);
  if (!attempt.ok()) return Refuse(exchange, attempt.status());
  HttpResponse response = Redirect(attempt->url);
  response.headers.emplace_back("Set-Cookie",
                                AttemptCookie(request, attempt->cookie));
  SendAnswer(exchange, std::move(response));
}

void Finish(std::shared_ptr<HttpExchange> exchange, BrowserSignIn* sign_in) {
  const HttpRequest& request = exchange->request();
  const auto cookie = FindCookie(request, CookieName(request));
  sign_in->Finish(
      cookie.value_or(""), request.query, request.peer_key,
      [exchange](const absl::StatusOr<BrowserSignIn::SignedIn>& signed_in) {
        const HttpRequest& request = exchange->request();
        HttpResponse response = signed_in.ok()
                                    ? Redirect(signed_in->return_to)
                                    : ErrorResponse(signed_in.status());
        response.headers.emplace_back("Set-Cookie", AttemptCookie(request, ""));
        if (signed_in.ok()) {
          response.headers.emplace_back(
              "Set-Cookie",
              SessionCookie(request, signed_in->session, signed_in->lifetime));
        }
        SendAnswer(*exchange, std::move(response));
      });
}

}  // namespace

bool IsSignInPage(const std::string& path) {
  return path == kPath || path == kLogin || path == kCallback;
}

void AnswerSignIn(std::shared_ptr<HttpExchange> exchange,
                  BrowserSignIn* sign_in) {
  const HttpRequest& request = exchange->request();
  if (sign_in == nullptr && request.path != kPath) {
    return Refuse(*exchange,
                  absl::NotFoundError("this server has no single sign-on"));
  }
  if (request.method != "GET") {
    HttpResponse response =
        ErrorResponse(absl::UnimplementedError("this path has GET alone"), 405);
    response.headers.emplace_back("Allow", "GET");
    return SendAnswer(*exchange, std::move(response));
  }
  if (request.path == kLogin) return Begin(*exchange, *sign_in);
  if (request.path == kCallback) return Finish(std::move(exchange), sign_in);
  SendBody(*exchange, "application/json",
           JsonText(nlohmann::json{
               {"issuer", sign_in == nullptr ? "" : sign_in->issuer()}}));
}

}  // namespace comera::server
