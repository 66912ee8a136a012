#ifndef COMERA_COMMON_OBJECT_STORE_OBJECT_CLIENT_H_
#define COMERA_COMMON_OBJECT_STORE_OBJECT_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/object_store/exchange_retry.h"
#include "common/object_store/s3_credentials.h"

namespace comera {

// Where an object lies, and how its server is asked for it.
struct ObjectLocation {
  // Begins with https://, or with http:// if `plain_http`.
  std::string url;
  bool plain_http = false;
  // The S3 region for which requests are signed with `credentials`; empty for
  // requests without a signature.
  std::string s3_region;
  S3Credentials credentials;
  // Whether the server may redirect to this URL, which begins with https://;
  // empty: it may not redirect.
  std::function<bool(const std::string& url)> may_redirect;
};

// What tells one version of an object from another.
struct ObjectVersion {
  int64_t size = 0;
  // As the server sends it, with its quotes; may be empty.
  std::string etag;
  std::string last_modified;

  // Whether equal ETags mean equal bytes, so that a part can be completed.
  bool resumable() const;
};

// Reads objects over HTTPS, and from S3 services also over HTTP. Immutable and
// thread-safe. No request has a total deadline; one that makes no progress
// ends. Errors name neither URLs nor credentials.
//
//   ObjectClient client(ObjectClient::Options{});
//   ASSIGN_OR_RETURN(ObjectVersion version, client.Head(location, cancelled));
//   RETURN_IF_ERROR(client.Get(location, version, 0, cancelled, write));
//
// Both return: Cancelled. NotFound. PermissionDenied: the server refuses, is
// not trusted, or redirects to where it may not. Unavailable: after some tries
// the network or the server still fails; try again later. FailedPrecondition:
// any other answer that a later try would get too.
class ObjectClient {
 public:
  struct Options : RetryOptions {
    // PEM file of the authorities to trust; empty for the system's.
    std::string ca_file;
    absl::Duration connect_timeout = absl::Seconds(30);
    // How long a request goes on with hardly a byte, in whole seconds.
    absl::Duration stall = absl::Seconds(30);
  };
  // Receives the next bytes; an error ends the transfer and becomes its result.
  using Sink = std::function<absl::Status(absl::string_view data)>;

  explicit ObjectClient(const Options& options) : options_(options) {}

  // FailedPrecondition also: the server says no size, or sends neither an ETag
  // nor a time of modification, so that a change could not be noticed.
  absl::StatusOr<ObjectVersion> Head(const ObjectLocation& location,
                                     const std::atomic<bool>& cancelled) const;

  // Passes the bytes of this version from `offset` on to `sink`, over several
  // connections if they break. Aborted: the object has another version now.
  // OutOfRange: the transfer broke or `offset` is not 0, and the server cannot
  // go on there; begin again at 0.
  absl::Status Get(const ObjectLocation& location, const ObjectVersion& version,
                   int64_t offset, const std::atomic<bool>& cancelled,
                   const Sink& sink) const;

 private:
  // One try, which follows redirects.
  absl::Status TryHead(const ObjectLocation& location,
                       const std::atomic<bool>& cancelled,
                       ObjectVersion* version) const;
  absl::Status TryGet(const ObjectLocation& location,
                      const ObjectVersion& version, int64_t* offset,
                      const std::atomic<bool>& cancelled,
                      const Sink& sink) const;

  const Options options_;
};

}  // namespace comera

#endif  // COMERA_COMMON_OBJECT_STORE_OBJECT_CLIENT_H_
