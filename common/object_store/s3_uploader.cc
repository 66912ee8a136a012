// Uploads objects in parts, and cleans up after uploads that fail.

#include "common/object_store/s3_uploader.h"

#include <openssl/evp.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/log.h"
#include "common/status_macros.h"

namespace comera {
namespace {

// S3's limit.
constexpr int64_t kMaxParts = 10000;
// What it is worth to clean up when an upload has failed, perhaps because this
// process ends.
constexpr int kAbortTries = 2;
constexpr absl::Duration kAbortTimeout = absl::Seconds(3);

S3Bucket::Options Hasty(S3Bucket::Options bucket) {
  bucket.client.tries = kAbortTries;
  bucket.client.connect_timeout = kAbortTimeout;
  bucket.client.stall = kAbortTimeout;
  return bucket;
}

// Without the quotes.
absl::string_view Bare(absl::string_view tag) {
  absl::ConsumePrefix(&tag, "\"");
  absl::ConsumeSuffix(&tag, "\"");
  return tag;
}

// The tag of an object that was put together of parts with these tags: the MD5
// of their MD5s, and their number. Empty if they are no MD5s, as where the
// service encrypts under a key of the customer's.
std::string TagOfWhole(const std::vector<std::string>& tags) {
  std::string digests;
  for (const std::string& tag : tags) {
    const absl::string_view digits = Bare(tag);
    if (digits.size() != 32 ||
        !std::all_of(digits.begin(), digits.end(), [](char c) {
          return absl::ascii_isxdigit(static_cast<unsigned char>(c));
        })) {
      return "";
    }
    absl::StrAppend(&digests, absl::HexStringToBytes(digits));
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(digests.data(), digests.size(), digest, &size, EVP_md5(),
                 nullptr) != 1) {
    return "";
  }
  return absl::StrCat(absl::BytesToHexString(absl::string_view(
                          reinterpret_cast<const char*>(digest), size)),
                      "-", tags.size());
}

}  // namespace

S3Uploader::S3Uploader(const S3Bucket::Options& bucket,
                       const S3Endpoint& endpoint, const S3KeySource& keys,
                       int64_t part_bytes)
    : bucket_(bucket, endpoint, keys),
      hasty_(Hasty(bucket), endpoint, keys),
      reader_(bucket.client),
      part_bytes_(part_bytes) {}

absl::Status S3Uploader::Upload(const std::string& key, int64_t size,
                                const Source& source,
                                const std::atomic<bool>& cancelled) const {
  ASSIGN_OR_RETURN(const std::string id, bucket_.BeginUpload(key, cancelled));
  auto abort = absl::MakeCleanup([&] { Abort(key, id); });
  std::vector<std::string> tags;
  RETURN_IF_ERROR(SendParts(key, id, size, source, cancelled, &tags));
  const absl::Status ended = bucket_.EndUpload(key, id, tags, cancelled);
  if (absl::IsNotFound(ended) || absl::IsUnavailable(ended)) {
    // The answer to an earlier try may have been lost on its way. The server
    // then does not know the upload any more, which Ceph's gateway calls an
    // internal error. What has the key may also be something older.
    const std::string tag = TagOfWhole(tags);
    if (tag.empty()) return absl::UnavailableError(ended.message());
    const absl::Status arrived = CheckArrived(key, size, tag, cancelled);
    if (arrived.ok() || absl::IsCancelled(arrived)) return arrived;
    return absl::UnavailableError(ended.message());
  }
  RETURN_IF_ERROR(ended);
  std::move(abort).Cancel();
  return CheckArrived(key, size, /*tag=*/"", cancelled);
}

absl::Status S3Uploader::SendParts(const std::string& key,
                                   const std::string& id, int64_t size,
                                   const Source& source,
                                   const std::atomic<bool>& cancelled,
                                   std::vector<std::string>* tags) const {
  const int64_t least = (size + kMaxParts - 1) / kMaxParts;
  const auto part_bytes = static_cast<size_t>(std::max(part_bytes_, least));
  std::string part;
  part.reserve(std::min(part_bytes, static_cast<size_t>(size)));
  const auto send = [&]() -> absl::Status {
    const int number = static_cast<int>(tags->size()) + 1;
    ASSIGN_OR_RETURN(std::string tag,
                     bucket_.UploadPart(key, id, number, part, cancelled));
    tags->push_back(std::move(tag));
    part.clear();
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(source([&](absl::string_view data) -> absl::Status {
    while (!data.empty()) {
      const absl::string_view next = data.substr(0, part_bytes - part.size());
      part.append(next.data(), next.size());
      data.remove_prefix(next.size());
      if (part.size() == part_bytes) RETURN_IF_ERROR(send());
    }
    return absl::OkStatus();
  }));
  return part.empty() && !tags->empty() ? absl::OkStatus() : send();
}

void S3Uploader::Abort(const std::string& key, const std::string& id) const {
  const std::atomic<bool> never{false};
  const absl::Status status = hasty_.AbortUpload(key, id, never);
  LOG_IF(WARNING, !status.ok())
      << "parts of an upload are left in the bucket " << status;
}

absl::Status S3Uploader::CheckArrived(
    const std::string& key, int64_t size, const std::string& tag,
    const std::atomic<bool>& cancelled) const {
  ASSIGN_OR_RETURN(const ObjectLocation location, bucket_.Locate(key));
  ASSIGN_OR_RETURN(const ObjectVersion version,
                   reader_.Head(location, cancelled));
  if (version.size != size) {
    return absl::UnavailableError(
        absl::StrCat("the bucket has ", version.size, " bytes of ", size));
  }
  if (!tag.empty() && !absl::EqualsIgnoreCase(Bare(version.etag), tag)) {
    return absl::UnavailableError(
        "the bucket has another object than was sent");
  }
  return absl::OkStatus();
}

}  // namespace comera
