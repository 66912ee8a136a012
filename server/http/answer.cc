// Adds headers, compression and conditions to answers.
#include "server/http/answer.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "server/http/gzip.h"
#include "server/http/http_error.h"
#include "server/http/json_text.h"

namespace comera::server {
namespace {

constexpr size_t kMinGzip = 1 << 10;
constexpr int kFastGzip = 1;
constexpr size_t kTagDigits = 32;
// In a tag, behind the hash: the same body, compressed.
constexpr char kGzipTag[] = "-gzip\"";

// Scripts and all else come from the server alone. Charts set styles.
constexpr char kPagePolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";
constexpr char kDataPolicy[] = "default-src 'none'; frame-ancestors 'none'";
constexpr char kKeep[] = "public, max-age=31536000, immutable";
// Kept by the sender's own browser only, and asked for again.
constexpr char kAskAgain[] = "private, no-cache";

std::string GzipTag(const std::string& etag) {
  return absl::StrCat(etag.substr(0, etag.size() - 1), kGzipTag);
}

void SendTagged(HttpExchange& exchange, const std::string& content_type,
                const std::shared_ptr<const std::string>& bytes,
                const std::shared_ptr<const std::string>& gzip,
                const std::string& etag, const char* cache_control) {
  const HttpRequest& request = exchange.request();
  HttpResponse response;
  const bool compressed = gzip != nullptr && AcceptsGzip(request);
  // Also without a body: browsers take the headers of a 304, the policy among
  // them, for those of the page that they have.
  response.headers.emplace_back("Content-Type", content_type);
  response.headers.emplace_back("Cache-Control", cache_control);
  response.headers.emplace_back("Vary",
                                "Accept-Encoding, Authorization, Cookie");
  if (request.method == "GET") {
    response.headers.emplace_back("ETag", compressed ? GzipTag(etag) : etag);
    if (HasTag(request, etag)) {
      response.code = 304;
      return SendAnswer(exchange, std::move(response));
    }
  }
  if (compressed) response.headers.emplace_back("Content-Encoding", "gzip");
  response.body = compressed ? gzip : bytes;
  SendAnswer(exchange, std::move(response));
}

}  // namespace

std::shared_ptr<const Body> MakeBody(std::string content_type,
                                     std::string bytes, bool compress) {
  auto body = std::make_shared<Body>();
  body->content_type = std::move(content_type);
  body->etag = absl::StrCat("\"", Sha256Hex(bytes).substr(0, kTagDigits), "\"");
  if (compress && bytes.size() >= kMinGzip) {
    std::string gzip = Gzip(bytes, kFastGzip);
    if (!gzip.empty() && gzip.size() < bytes.size()) {
      body->gzip = std::make_shared<const std::string>(std::move(gzip));
    }
  }
  body->bytes = std::make_shared<const std::string>(std::move(bytes));
  return body;
}

void AddCommonHeaders(HttpHeaders* headers) {
  const std::string* type = FindHeader(*headers, "Content-Type");
  const bool page = type != nullptr && absl::StartsWith(*type, "text/html");
  headers->emplace_back("X-Content-Type-Options", "nosniff");
  headers->emplace_back("Content-Security-Policy",
                        page ? kPagePolicy : kDataPolicy);
  headers->emplace_back("Referrer-Policy", "no-referrer");
  headers->emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  if (page) {
    headers->emplace_back("X-Frame-Options", "DENY");
    headers->emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  }
  if (FindHeader(*headers, "Cache-Control") == nullptr) {
    headers->emplace_back("Cache-Control", "no-store");
  }
}

void SendAnswer(HttpExchange& exchange, HttpResponse response) {
  AddCommonHeaders(&response.headers);
  exchange.Send(std::move(response));
}

void SendBody(HttpExchange& exchange, const Body& body) {
  SendTagged(exchange, body.content_type, body.bytes, body.gzip, body.etag,
             kAskAgain);
}

void SendBody(HttpExchange& exchange, std::string content_type,
              std::string bytes) {
  SendBody(exchange, *MakeBody(std::move(content_type), std::move(bytes),
                               AcceptsGzip(exchange.request())));
}

void SendStaticFile(HttpExchange& exchange, const StaticFiles& files) {
  const std::string& path = exchange.request().path;
  const StaticFile* file = files.Find(path);
  if (file == nullptr) {
    return SendAnswer(
        exchange,
        ErrorResponse(absl::NotFoundError(absl::StrCat(
            "there is no path ", JsonStringOfAny(path.substr(0, 200))))));
  }
  SendTagged(exchange, file->content_type, file->body, file->gzip_body,
             file->etag, file->immutable ? kKeep : kAskAgain);
}

bool AcceptsGzip(const HttpRequest& request) {
  const std::string* accepted = FindHeader(request.headers, "Accept-Encoding");
  if (accepted == nullptr) return false;
  for (const absl::string_view one : absl::StrSplit(*accepted, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(one, absl::MaxSplits(';', 1));
    if (!absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(parts.first),
                                "gzip")) {
      continue;
    }
    const absl::string_view weight = absl::StripAsciiWhitespace(parts.second);
    // "q=0", "q=0.0".
    return !(absl::StartsWithIgnoreCase(weight, "q=0") &&
             weight.find_first_not_of("0.", 2) == absl::string_view::npos);
  }
  return false;
}

bool HasTag(const HttpRequest& request, const std::string& etag) {
  const std::string* wanted = FindHeader(request.headers, "If-None-Match");
  if (wanted == nullptr) return false;
  const std::string gzip_etag = GzipTag(etag);
  for (absl::string_view one : absl::StrSplit(*wanted, ',')) {
    one = absl::StripAsciiWhitespace(one);
    absl::ConsumePrefix(&one, "W/");
    if (one == "*" || one == etag || one == gzip_etag) return true;
  }
  return false;
}

}  // namespace comera::server
