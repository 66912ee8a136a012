#ifndef COMERA_COMMON_OBJECT_STORE_OBJECT_EXCHANGE_H_
#define COMERA_COMMON_OBJECT_STORE_OBJECT_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/object_store/s3_credentials.h"

namespace comera {

// One request for an object, or a change of one.
struct ObjectRequest {
  std::string url;
  // Whether only the headers are wanted.
  bool head = false;
  // PUT, POST or DELETE; empty to read.
  std::string method;
  // What PUT and POST send; must outlive the exchange.
  absl::string_view body;
  // The first byte that is wanted.
  int64_t offset = 0;
  // An ETag that the object must have; empty for any.
  std::string if_match;
  // Signs the request for this S3 region; empty for no signature.
  std::string s3_region;
  S3Credentials credentials;
  // Whether the URL may be one of http.
  bool plain_http = false;
  // PEM file of the authorities to trust; empty for the system's.
  std::string ca_file;
  absl::Duration connect_timeout;
  // The exchange ends when fewer than 100 bytes a second move for this long.
  absl::Duration stall;
  const std::atomic<bool>* cancelled = nullptr;
};

// The head of an answer, as far as it matters here. Values that are missing or
// malformed are -1 or empty.
struct ObjectHead {
  int code = 0;
  int64_t content_length = -1;
  // "Content-Range: bytes first-last/total".
  int64_t range_first = -1;
  int64_t range_total = -1;
  std::string etag;
  std::string last_modified;
  // The server's time.
  std::string date;
  // "x-amz-server-side-encryption": how the object is encrypted at rest.
  std::string encryption;
  // The absolute URL to which the answer redirects; known after the exchange.
  std::string redirect;
};

// Makes one exchange by libcurl: no redirect is followed, certificates are
// verified, no other protocol is possible. `on_head` is called before the first
// byte of a body; an error of it or of `sink` ends the exchange and becomes its
// result. Fills `head`; answers with any HTTP status are OK.
//
// Cancelled. Unavailable: the network failed or the answer is cut off.
// PermissionDenied: the server's certificate is not trusted. InvalidArgument:
// the URL is malformed. No message holds a URL or a header.
absl::Status PerformHttp(
    const ObjectRequest& request,
    const std::function<absl::Status(const ObjectHead&)>& on_head,
    const std::function<absl::Status(absl::string_view)>& sink,
    ObjectHead* head);

// The host in a URL, for messages; empty if it has none.
std::string HostOf(const std::string& url);

// The text as a value in a URL's query.
std::string EncodeQueryValue(const std::string& text);

}  // namespace comera

#endif  // COMERA_COMMON_OBJECT_STORE_OBJECT_EXCHANGE_H_
