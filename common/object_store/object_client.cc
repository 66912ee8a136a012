// Asks for versions and bytes of objects: redirects, checks of answers, and
// tries after failures.

#include "common/object_store/object_client.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/object_store/exchange_retry.h"
#include "common/object_store/object_exchange.h"
#include "common/status_macros.h"

namespace comera {
namespace {

constexpr int kMaxRedirects = 5;
// The part of a redirect's body that is read, which nobody needs.
constexpr size_t kMaxRedirectBytes = size_t{64} << 10;

bool IsRedirect(int code) {
  return code == 301 || code == 302 || code == 303 || code == 307 ||
         code == 308;
}

ObjectRequest RequestFor(const ObjectLocation& location,
                         const ObjectClient::Options& options,
                         const std::atomic<bool>& cancelled) {
  ObjectRequest request;
  request.url = location.url;
  request.plain_http = location.plain_http;
  request.s3_region = location.s3_region;
  request.credentials = location.credentials;
  request.ca_file = options.ca_file;
  request.connect_timeout = options.connect_timeout;
  request.stall = options.stall;
  request.cancelled = &cancelled;
  return request;
}

// Makes the exchange and those to which it is redirected. Bodies of redirects
// and errors are passed over.
absl::Status Follow(
    const ObjectLocation& location, ObjectRequest request,
    const std::function<absl::Status(const ObjectHead&)>& on_head,
    const ObjectClient::Sink& sink) {
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    ObjectHead head;
    size_t passed_over = 0;
    const absl::Status status = PerformHttp(
        request,
        [&](const ObjectHead& answer) {
          if (IsRedirect(answer.code)) return absl::OkStatus();
          RETURN_IF_ERROR(CheckHttpCode(answer.code));
          return on_head(answer);
        },
        [&](absl::string_view data) -> absl::Status {
          if (!IsRedirect(head.code)) return sink(data);
          passed_over += data.size();
          if (passed_over <= kMaxRedirectBytes) return absl::OkStatus();
          return absl::FailedPreconditionError(absl::StrCat(
              "the server redirects (HTTP ", head.code, ") at great length"));
        },
        &head);
    if (!status.ok() || !IsRedirect(head.code)) return status;
    if (head.redirect.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the server redirects (HTTP ", head.code,
          ") without saying where to; in S3, the bucket may be in another "
          "region than the one that was given for it"));
    }
    if (!location.may_redirect ||
        !absl::StartsWith(head.redirect, "https://") ||
        !location.may_redirect(head.redirect)) {
      return absl::PermissionDeniedError(
          absl::StrCat("the server redirects (HTTP ", head.code, ") to ",
                       HostOf(head.redirect), ", which is not allowed"));
    }
    request.url = head.redirect;
    request.plain_http = false;
    // Another server must not get the signature.
    request.s3_region.clear();
  }
  return absl::FailedPreconditionError("the server redirects too often");
}

absl::Status CheckSameVersion(const ObjectHead& head,
                              const ObjectVersion& version, int64_t offset) {
  const bool partial = head.code == 206;
  if (offset > 0 && !partial) {
    return absl::OutOfRangeError("the server cannot go on in the middle");
  }
  if (partial && head.range_first != offset) {
    return absl::OutOfRangeError("the server sends other bytes than asked for");
  }
  const int64_t size = partial ? head.range_total : head.content_length;
  const bool same = version.etag.empty()
                        ? head.last_modified == version.last_modified
                        : head.etag == version.etag;
  if (!same || (size >= 0 && size != version.size)) {
    return absl::AbortedError("it has changed since it was first looked at");
  }
  return absl::OkStatus();
}

}  // namespace

bool ObjectVersion::resumable() const {
  return absl::StartsWith(etag, "\"");  // not W/"...", which is weak
}

absl::StatusOr<ObjectVersion> ObjectClient::Head(
    const ObjectLocation& location, const std::atomic<bool>& cancelled) const {
  ObjectVersion version;
  RETURN_IF_ERROR(RetryExchange(options_, cancelled, [&](bool*) {
    return TryHead(location, cancelled, &version);
  }));
  return version;
}

absl::Status ObjectClient::TryHead(const ObjectLocation& location,
                                   const std::atomic<bool>& cancelled,
                                   ObjectVersion* version) const {
  ObjectRequest request = RequestFor(location, options_, cancelled);
  request.head = true;
  return Follow(
      location, std::move(request),
      [&](const ObjectHead& head) -> absl::Status {
        if (head.content_length < 0) {
          return absl::FailedPreconditionError(
              "the server does not say its size");
        }
        if (head.etag.empty() && head.last_modified.empty()) {
          return absl::FailedPreconditionError(
              "the server sends neither ETag nor Last-Modified, so that a "
              "change could not be noticed");
        }
        version->size = head.content_length;
        version->etag = head.etag;
        version->last_modified = head.last_modified;
        return absl::OkStatus();
      },
      [](absl::string_view) { return absl::OkStatus(); });
}

absl::Status ObjectClient::Get(const ObjectLocation& location,
                               const ObjectVersion& version, int64_t offset,
                               const std::atomic<bool>& cancelled,
                               const Sink& sink) const {
  return RetryExchange(
      options_, cancelled, [&](bool* progress) -> absl::Status {
        if (offset == version.size) return absl::OkStatus();
        if (offset > 0 && !version.resumable()) {
          return absl::OutOfRangeError(
              "the server sends no strong ETag, so that a part is of no use");
        }
        const int64_t before = offset;
        const absl::Status status =
            TryGet(location, version, &offset, cancelled, sink);
        *progress = offset > before;
        return status;
      });
}

absl::Status ObjectClient::TryGet(const ObjectLocation& location,
                                  const ObjectVersion& version, int64_t* offset,
                                  const std::atomic<bool>& cancelled,
                                  const Sink& sink) const {
  ObjectRequest request = RequestFor(location, options_, cancelled);
  request.offset = *offset;
  if (version.resumable()) request.if_match = version.etag;
  const int64_t first = *offset;
  RETURN_IF_ERROR(Follow(
      location, std::move(request),
      [&](const ObjectHead& head) {
        return CheckSameVersion(head, version, first);
      },
      [&](absl::string_view data) -> absl::Status {
        if (static_cast<int64_t>(data.size()) > version.size - *offset) {
          return absl::AbortedError("it has more bytes than it was said to");
        }
        RETURN_IF_ERROR(sink(data));
        *offset += static_cast<int64_t>(data.size());
        return absl::OkStatus();
      }));
  if (*offset == version.size) return absl::OkStatus();
  return absl::UnavailableError("the answer ended too early");
}

}  // namespace comera
