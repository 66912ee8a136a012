// Makes a request over the web by libcurl.
#include "common/http/web_fetch.h"

#include <curl/curl.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace comera {
namespace {

constexpr long kConnectSeconds = 5;
constexpr long kTotalSeconds = 10;

size_t Ignore(char* /*data*/, size_t /*one*/, size_t size, void* /*user*/) {
  return size;
}

size_t OnBody(char* data, size_t /*one*/, size_t size, void* user) {
  std::string& body = *static_cast<std::string*>(user);
  if (body.size() + size > kMaxWebAnswer) return CURL_WRITEFUNC_ERROR;
  body.append(data, size);
  return size;
}

int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* cancelled = static_cast<const std::atomic<bool>*>(user);
  return cancelled != nullptr && *cancelled ? 1 : 0;
}

absl::Status ToStatus(CURLcode code) {
  const std::string text = curl_easy_strerror(code);
  switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
      return absl::CancelledError("not wanted any more");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      return absl::PermissionDeniedError(text);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
      return absl::InvalidArgumentError(text);
    case CURLE_WRITE_ERROR:
      return absl::UnavailableError(
          absl::StrCat("the answer has more than ", kMaxWebAnswer, " bytes"));
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace

std::string EncodeForm(absl::string_view text) {
  char* const encoded =
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size()));
  if (encoded == nullptr) return "";
  std::string result = encoded;
  curl_free(encoded);
  return result;
}

absl::StatusOr<WebAnswer> FetchWeb(const WebRequest& request) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(),
                                                      curl_easy_cleanup);
  if (started != CURLE_OK || handle == nullptr) {
    return absl::InternalError("libcurl does not start");
  }
  CURL* const curl = handle.get();
  WebAnswer answer;
  std::string form;
  for (const auto& [name, value] : request.form) {
    absl::StrAppend(&form, form.empty() ? "" : "&", EncodeForm(name), "=",
                    EncodeForm(value));
  }
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR,
                   request.plain_http ? "http,https" : "https");
  // A server on this machine is what http is for.
  if (request.plain_http) curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, kTotalSeconds);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "comera");
  const std::string& posted = request.form.empty() ? request.body : form;
  if (!posted.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(posted.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, posted.c_str());
  }
  curl_slist* lines = nullptr;
  for (const auto& [name, value] : request.headers) {
    lines = curl_slist_append(lines, absl::StrCat(name, ": ", value).c_str());
  }
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(
      lines, curl_slist_free_all);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  // Else the end waits for a name server that is silent.
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION,
                   request.code_only ? Ignore : OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer.body);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, request.cancelled);
  const CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK) return ToStatus(code);
  long http = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http);
  answer.code = static_cast<int>(http);
  return answer;
}

}  // namespace comera
