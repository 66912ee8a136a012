// One HTTP exchange by libcurl, with a request's signature and an answer's
// headers.

#include "common/object_store/object_exchange.h"

#include <curl/curl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files.h"

namespace comera {
namespace {

constexpr size_t kMaxHeaderValue = 1024;
constexpr int64_t kStallBytesPerSecond = 100;

// The number in digits; -1 if it is none.
int64_t ParseCount(absl::string_view digits) {
  int64_t number = -1;
  if (digits.empty() || digits.size() > 18 ||
      !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &number)) {
    return -1;
  }
  return number;
}

void ParseRange(absl::string_view value, ObjectHead* head) {
  if (!absl::ConsumePrefix(&value, "bytes ")) return;
  const size_t dash = value.find('-');
  const size_t slash = value.find('/');
  if (dash == absl::string_view::npos || slash == absl::string_view::npos) {
    return;
  }
  head->range_first = ParseCount(value.substr(0, dash));
  head->range_total = ParseCount(value.substr(slash + 1));
}

// What the callbacks of one exchange share.
struct Exchange {
  CURL* curl = nullptr;
  const ObjectRequest* request = nullptr;
  const std::function<absl::Status(const ObjectHead&)>* on_head = nullptr;
  const std::function<absl::Status(absl::string_view)>* sink = nullptr;
  ObjectHead* head = nullptr;
  // The bytes of the body that were sent.
  size_t sent = 0;
  bool reported_head = false;
  // The first error of `on_head` or `sink`.
  absl::Status refused;

  absl::Status ReportHead() {
    if (reported_head) return absl::OkStatus();
    reported_head = true;
    long code = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    head->code = static_cast<int>(code);
    return (*on_head)(*head);
  }
};

size_t OnHeader(char* data, size_t /*one*/, size_t size, void* user) {
  ObjectHead& head = *static_cast<Exchange*>(user)->head;
  const absl::string_view line(data, size);
  // The lines of an interim answer (1xx) do not count.
  if (absl::StartsWith(line, "HTTP/")) head = ObjectHead();
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos) return size;
  const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
  const absl::string_view value =
      absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (value.size() > kMaxHeaderValue) return size;
  if (name == "content-length") head.content_length = ParseCount(value);
  if (name == "content-range") ParseRange(value, &head);
  // Goes back into a header of later requests.
  const bool printable =
      std::all_of(value.begin(), value.end(), absl::ascii_isprint);
  if (name == "etag" && printable) head.etag = std::string(value);
  if (name == "last-modified" && printable) {
    head.last_modified = std::string(value);
  }
  if (name == "date" && printable) head.date = std::string(value);
  if (name == "x-amz-server-side-encryption" && printable) {
    head.encryption = std::string(value);
  }
  return size;
}

size_t OnBody(char* data, size_t /*one*/, size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  exchange.refused = exchange.ReportHead();
  if (exchange.refused.ok()) {
    exchange.refused = (*exchange.sink)(absl::string_view(data, size));
  }
  return exchange.refused.ok() ? size : CURL_WRITEFUNC_ERROR;
}

size_t OnSend(char* buffer, size_t one, size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  const absl::string_view next =
      exchange.request->body.substr(exchange.sent, one * size);
  std::copy(next.begin(), next.end(), buffer);
  exchange.sent += next.size();
  return next.size();
}

int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return *static_cast<Exchange*>(user)->request->cancelled ? 1 : 0;
}

// Why the server's certificate was refused.
absl::Status NotTrusted(CURL* curl) {
  long result = X509_V_OK;
  curl_easy_getinfo(curl, CURLINFO_SSL_VERIFYRESULT, &result);
  // The chain is good, so it is the name that is not. libcurl compares that
  // before it asks for the chain's result, which is unspecified until then.
  if (result == X509_V_OK || result == X509_V_ERR_UNSPECIFIED) {
    return absl::PermissionDeniedError(
        "the server's certificate is for another name");
  }
  return absl::PermissionDeniedError(
      absl::StrCat("the server's certificate is not trusted (",
                   X509_verify_cert_error_string(result),
                   "); --data_ca names the file of a private authority"));
}

absl::Status ToStatus(CURLcode code, CURL* curl) {
  const std::string text = curl_easy_strerror(code);
  switch (code) {
    case CURLE_OK:
      return absl::OkStatus();
    case CURLE_ABORTED_BY_CALLBACK:
      return absl::CancelledError("not wanted any more");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      return NotTrusted(curl);
    case CURLE_SSL_CACERT_BADFILE:
      return absl::PermissionDeniedError(
          "--data_ca has no authority that can be read, so that the server's "
          "certificate cannot be verified");
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
      return absl::InvalidArgumentError(text);
    default:
      return absl::UnavailableError(text);
  }
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

void Append(const std::string& line, HeaderList* headers) {
  curl_slist* const longer = curl_slist_append(headers->get(), line.c_str());
  if (longer == nullptr) return;
  headers->release();
  headers->reset(longer);
}

HeaderList HeadersOf(const ObjectRequest& request) {
  HeaderList headers;
  if (!request.if_match.empty()) {
    Append(absl::StrCat("If-Match: ", request.if_match), &headers);
  }
  if (request.s3_region.empty()) return headers;
  // S3 wants it said, and compares it with what comes. libcurl 7.88 signs such
  // a header but does not add it.
  Append(absl::StrCat("x-amz-content-sha256: ",
                      Sha256Hex(std::string_view(request.body.data(),
                                                 request.body.size()))),
         &headers);
  if (!request.credentials.session_token.empty()) {
    Append(absl::StrCat("x-amz-security-token: ",
                        request.credentials.session_token),
           &headers);
  }
  return headers;
}

void SetUp(const ObjectRequest& request, const curl_slist* headers,
           Exchange* exchange, CURL* curl) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  const char* protocols = request.plain_http ? "http,https" : "https";
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, protocols);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
  if (!request.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, request.ca_file.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(
      curl, CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(absl::ToInt64Milliseconds(request.connect_timeout)));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT,
                   static_cast<long>(kStallBytesPerSecond));
  curl_easy_setopt(
      curl, CURLOPT_LOW_SPEED_TIME,
      std::max(1L, static_cast<long>(absl::ToInt64Seconds(request.stall))));
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "comera");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  if (request.head) curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  if (!request.method.empty()) {
    if (request.method != "DELETE") {
      curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
      curl_easy_setopt(curl, CURLOPT_READFUNCTION, OnSend);
      curl_easy_setopt(curl, CURLOPT_READDATA, exchange);
      curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE,
                       static_cast<curl_off_t>(request.body.size()));
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  if (request.offset > 0) {
    curl_easy_setopt(curl, CURLOPT_RANGE,
                     absl::StrCat(request.offset, "-").c_str());
  }
  if (!request.s3_region.empty()) {
    curl_easy_setopt(
        curl, CURLOPT_AWS_SIGV4,
        absl::StrCat("aws:amz:", request.s3_region, ":s3").c_str());
    curl_easy_setopt(curl, CURLOPT_USERNAME,
                     request.credentials.access_key_id.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD,
                     request.credentials.secret_access_key.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, exchange);
}

}  // namespace

absl::Status PerformHttp(
    const ObjectRequest& request,
    const std::function<absl::Status(const ObjectHead&)>& on_head,
    const std::function<absl::Status(absl::string_view)>& sink,
    ObjectHead* head) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(),
                                                    curl_easy_cleanup);
  if (started != CURLE_OK || curl == nullptr) {
    return absl::InternalError("libcurl does not start");
  }
  *head = ObjectHead();
  Exchange exchange;
  exchange.curl = curl.get();
  exchange.request = &request;
  exchange.on_head = &on_head;
  exchange.sink = &sink;
  exchange.head = head;
  const HeaderList headers = HeadersOf(request);
  SetUp(request, headers.get(), &exchange, curl.get());
  const CURLcode code = curl_easy_perform(curl.get());
  if (!exchange.refused.ok()) return exchange.refused;
  if (code != CURLE_OK) return ToStatus(code, curl.get());
  const char* redirect = nullptr;
  curl_easy_getinfo(curl.get(), CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr) head->redirect = redirect;
  return exchange.ReportHead();
}

std::string HostOf(const std::string& url) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> parts(curl_url(),
                                                       curl_url_cleanup);
  char* host = nullptr;
  if (parts == nullptr ||
      curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
      curl_url_get(parts.get(), CURLUPART_HOST, &host, 0) != CURLUE_OK) {
    return "";
  }
  const std::string result = host;
  curl_free(host);
  return result;
}

std::string EncodeQueryValue(const std::string& text) {
  char* const encoded =
      curl_easy_escape(nullptr, text.c_str(), static_cast<int>(text.size()));
  if (encoded == nullptr) return "";
  std::string result = encoded;
  curl_free(encoded);
  return result;
}

}  // namespace comera
