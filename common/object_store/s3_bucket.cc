// Makes the requests of S3 that change and list objects.

#include "common/object_store/s3_bucket.h"

#include <openssl/evp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/object_store/exchange_retry.h"
#include "common/status_macros.h"

namespace comera {
namespace {

constexpr size_t kMaxAnswerBytes = size_t{8} << 20;
// Protects against a server that never comes to an end.
constexpr int kMaxPages = 10000;

// In hexadecimal digits; empty where MD5 is not to be had.
std::string Md5Hex(absl::string_view data) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(data.data(), data.size(), digest, &size, EVP_md5(), nullptr) !=
      1) {
    return "";
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

// Whether the tag that the server gives a part is the MD5 of something else.
bool HasOtherMd5(const ObjectHead& head, absl::string_view data) {
  // Under a key of the customer's the tag is no MD5.
  if (absl::StartsWith(head.encryption, "aws:kms")) return false;
  absl::string_view tag = head.etag;
  absl::ConsumePrefix(&tag, "\"");
  absl::ConsumeSuffix(&tag, "\"");
  const bool is_md5 =
      tag.size() == 32 && std::all_of(tag.begin(), tag.end(), [](char c) {
        return absl::ascii_isxdigit(static_cast<unsigned char>(c));
      });
  if (!is_md5) return false;
  const std::string own = Md5Hex(data);
  return !own.empty() && !absl::EqualsIgnoreCase(tag, own);
}

std::string EscapeXml(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace

absl::StatusOr<ObjectLocation> S3Bucket::Locate(const std::string& key) const {
  ObjectLocation location;
  location.url = endpoint_.Url(options_.bucket, absl::StrCat("/", key));
  location.plain_http = endpoint_.plain_http();
  location.s3_region = endpoint_.region();
  ASSIGN_OR_RETURN(location.credentials, keys_.Get());
  return location;
}

absl::StatusOr<S3Bucket::Answer> S3Bucket::AskOnce(
    const std::string& method, const std::string& path,
    const std::string& query, absl::string_view body,
    const std::atomic<bool>& cancelled) const {
  ObjectRequest request;
  request.url = absl::StrCat(endpoint_.Url(options_.bucket, path),
                             query.empty() ? "" : "?", query);
  request.method = method;
  request.body = body;
  request.s3_region = endpoint_.region();
  ASSIGN_OR_RETURN(request.credentials, keys_.Get());
  request.plain_http = endpoint_.plain_http();
  request.ca_file = options_.client.ca_file;
  request.connect_timeout = options_.client.connect_timeout;
  request.stall = method == "POST" ? options_.end_stall : options_.client.stall;
  request.cancelled = &cancelled;
  Answer answer;
  RETURN_IF_ERROR(PerformHttp(
      request, [](const ObjectHead&) { return absl::OkStatus(); },
      [&](absl::string_view data) -> absl::Status {
        absl::StrAppend(&answer.body, data);
        if (answer.body.size() <= kMaxAnswerBytes) return absl::OkStatus();
        return absl::FailedPreconditionError("the server's answer is too long");
      },
      &answer.head));
  const absl::Status status = CheckHttpCode(answer.head.code);
  if (status.ok()) return answer;
  const std::string code = ParseS3ErrorCode(answer.body);
  return code.empty()
             ? status
             : absl::Status(status.code(),
                            absl::StrCat(status.message(), ", ", code));
}

absl::StatusOr<S3Bucket::Answer> S3Bucket::Ask(
    const std::string& method, const std::string& path,
    const std::string& query, absl::string_view body,
    const std::atomic<bool>& cancelled,
    const std::function<absl::Status(const Answer&)>& check) const {
  Answer answer;
  RETURN_IF_ERROR(RetryExchange(
      options_.client, cancelled, [&](bool* /*progress*/) -> absl::Status {
        ASSIGN_OR_RETURN(answer, AskOnce(method, path, query, body, cancelled));
        return check == nullptr ? absl::OkStatus() : check(answer);
      }));
  return answer;
}

absl::StatusOr<std::vector<S3Listing::Object>> S3Bucket::List(
    const std::string& prefix, const std::atomic<bool>& cancelled) const {
  std::vector<S3Listing::Object> objects;
  std::string next;
  for (int page = 0; page < kMaxPages; ++page) {
    std::string query;
    if (!next.empty()) {
      absl::StrAppend(&query, "continuation-token=", EncodeQueryValue(next),
                      "&");
    }
    absl::StrAppend(&query, "list-type=2&max-keys=", options_.page,
                    "&prefix=", EncodeQueryValue(prefix));
    ASSIGN_OR_RETURN(const Answer answer, Ask("", "/", query, "", cancelled));
    ASSIGN_OR_RETURN(S3Listing listing, ParseS3Listing(answer.body));
    for (S3Listing::Object& object : listing.objects) {
      if (absl::StartsWith(object.key, prefix)) {
        objects.push_back(std::move(object));
      }
    }
    next = std::move(listing.next);
    if (next.empty()) return objects;
  }
  return absl::FailedPreconditionError("the server's listing does not end");
}

absl::Status S3Bucket::Delete(const std::string& key,
                              const std::atomic<bool>& cancelled) const {
  const absl::Status status =
      Ask("DELETE", absl::StrCat("/", key), "", "", cancelled).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<std::string> S3Bucket::BeginUpload(
    const std::string& key, const std::atomic<bool>& cancelled) const {
  ASSIGN_OR_RETURN(const Answer answer, Ask("POST", absl::StrCat("/", key),
                                            "uploads=", "", cancelled));
  return ParseS3UploadId(answer.body);
}

absl::StatusOr<std::string> S3Bucket::UploadPart(
    const std::string& key, const std::string& id, int number,
    absl::string_view data, const std::atomic<bool>& cancelled) const {
  ASSIGN_OR_RETURN(const Answer answer,
                   Ask("PUT", absl::StrCat("/", key),
                       absl::StrCat("partNumber=", number,
                                    "&uploadId=", EncodeQueryValue(id)),
                       data, cancelled, [&](const Answer& got) -> absl::Status {
                         if (got.head.etag.empty()) {
                           return absl::FailedPreconditionError(
                               "the server gives a part no tag");
                         }
                         if (!HasOtherMd5(got.head, data))
                           return absl::OkStatus();
                         return absl::UnavailableError(
                             "the server got other bytes than were sent");
                       }));
  return answer.head.etag;
}

absl::Status S3Bucket::EndUpload(const std::string& key, const std::string& id,
                                 const std::vector<std::string>& tags,
                                 const std::atomic<bool>& cancelled) const {
  std::string body = "<CompleteMultipartUpload>";
  int number = 0;
  for (const std::string& tag : tags) {
    absl::StrAppend(&body, "<Part><PartNumber>", ++number,
                    "</PartNumber><ETag>", EscapeXml(tag), "</ETag></Part>");
  }
  absl::StrAppend(&body, "</CompleteMultipartUpload>");
  return Ask("POST", absl::StrCat("/", key),
             absl::StrCat("uploadId=", EncodeQueryValue(id)), body, cancelled,
             [](const Answer& got) { return ParseS3Completion(got.body); })
      .status();
}

absl::Status S3Bucket::AbortUpload(const std::string& key,
                                   const std::string& id,
                                   const std::atomic<bool>& cancelled) const {
  const absl::Status status =
      Ask("DELETE", absl::StrCat("/", key),
          absl::StrCat("uploadId=", EncodeQueryValue(id)), "", cancelled)
          .status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status S3Bucket::AbortOldUploads(
    const std::string& prefix, absl::Duration age,
    const std::atomic<bool>& cancelled) const {
  std::string next_key, next_id;
  for (int page = 0; page < kMaxPages; ++page) {
    std::string query;
    if (!next_key.empty()) {
      absl::StrAppend(&query, "key-marker=", EncodeQueryValue(next_key), "&");
    }
    absl::StrAppend(&query, "max-uploads=", options_.page,
                    "&prefix=", EncodeQueryValue(prefix));
    if (!next_key.empty()) {
      absl::StrAppend(&query, "&upload-id-marker=", EncodeQueryValue(next_id));
    }
    absl::StrAppend(&query, "&uploads=");
    ASSIGN_OR_RETURN(const Answer answer, Ask("", "/", query, "", cancelled));
    ASSIGN_OR_RETURN(S3Uploads listed, ParseS3Uploads(answer.body));
    absl::Time now;
    std::string why;
    // A wrong clock of this machine must not end what others are uploading.
    if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", answer.head.date, &now,
                         &why)) {
      return absl::FailedPreconditionError("the server does not tell its time");
    }
    for (const S3Uploads::Upload& upload : listed.uploads) {
      if (!absl::StartsWith(upload.key, prefix) ||
          now - upload.initiated < age) {
        continue;
      }
      RETURN_IF_ERROR(AbortUpload(upload.key, upload.id, cancelled));
    }
    next_key = std::move(listed.next_key);
    next_id = std::move(listed.next_id);
    if (next_key.empty()) return absl::OkStatus();
  }
  return absl::FailedPreconditionError("the server's listing does not end");
}

}  // namespace comera
