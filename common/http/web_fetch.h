#ifndef COMERA_COMMON_HTTP_WEB_FETCH_H_
#define COMERA_COMMON_HTTP_WEB_FETCH_H_

#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/http/http_message.h"

namespace comera {

// A request to a server that somebody else runs.
struct WebRequest {
  std::string url;
  // Fields of a form that is posted; empty, and without `body`: the URL is
  // read.
  std::vector<std::pair<std::string, std::string>> form;
  // Posted as it is, in place of a form.
  std::string body;
  HttpHeaders headers;
  // Whether the URL may be one of http, which is asked without a proxy.
  bool plain_http = false;
  // Whether the answer is only its code, whatever follows that.
  bool code_only = false;
  // Ends the exchange, within a second, once it is true.
  const std::atomic<bool>* cancelled = nullptr;
};

struct WebAnswer {
  int code = 0;
  std::string body;
};

// The largest answer that is read.
inline constexpr size_t kMaxWebAnswer = 256 << 10;

// Makes one exchange by libcurl, of at most ten seconds: no redirect is
// followed, certificates are verified by the system's authorities, no protocol
// but HTTP is possible. Answers of any HTTP status are OK. Blocks.
//
// Unavailable: the network failed, or the answer is too large.
// PermissionDenied: the certificate is not trusted. InvalidArgument: the URL is
// malformed. Cancelled. No message holds the URL, the form or the body.
absl::StatusOr<WebAnswer> FetchWeb(const WebRequest& request);

// The text as it stands in a query or a form.
std::string EncodeForm(absl::string_view text);

}  // namespace comera

#endif  // COMERA_COMMON_HTTP_WEB_FETCH_H_
