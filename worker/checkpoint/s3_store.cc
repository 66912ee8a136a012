// Implements the artifact store on a service that speaks S3.

#include "worker/checkpoint/s3_store.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/data_url.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/object_store/s3_bucket.h"

namespace comera::worker {
namespace {

constexpr absl::string_view kScheme = "s3://";
// S3's limit.
constexpr int64_t kMaxParts = 10000;
// What it is worth to clean up when an upload has failed, perhaps because this
// daemon ends.
constexpr int kAbortTries = 2;
constexpr absl::Duration kAbortTimeout = absl::Seconds(3);

// An object's errors as the store's: another key or another setting of the
// service may make good what it refuses now.
absl::Status ToStoreStatus(const absl::Status& status) {
  if (absl::IsCancelled(status)) return absl::AbortedError("abandoned");
  return status;
}

class S3Store : public ArtifactStore {
 public:
  S3Store(const S3StoreOptions& options, const S3Bucket& bucket,
          const S3Bucket& hasty, std::string prefix)
      : bucket_(bucket),
        hasty_(hasty),
        reader_(options.client),
        prefix_(std::move(prefix)),
        part_bytes_(options.part_bytes) {}

  absl::Status PutFile(const std::string& name, const std::string& path,
                       const std::atomic<bool>& abandoned) override {
    RETURN_IF_ERROR(CheckArtifactName(name));
    ASSIGN_OR_RETURN(const CheckpointFile file, CheckpointFile::Open(path));
    const std::string key = absl::StrCat(prefix_, name);
    const auto upload = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(const std::string id,
                       bucket_.BeginUpload(key, abandoned));
      auto abort = absl::MakeCleanup([&] { Abort(key, id); });
      std::vector<std::string> tags;
      RETURN_IF_ERROR(SendParts(file, key, id, abandoned, &tags));
      absl::Status ended = bucket_.EndUpload(key, id, tags, abandoned);
      // The answer to an earlier try may have been lost on its way.
      if (absl::IsNotFound(ended)) ended = absl::OkStatus();
      RETURN_IF_ERROR(ended);
      std::move(abort).Cancel();
      return CheckArrived(key, file.size(), abandoned);
    };
    const absl::Status status = upload();
    // The caller must not take it for its file's absence.
    if (absl::IsNotFound(status)) {
      return absl::FailedPreconditionError(status.message());
    }
    return ToStoreStatus(status);
  }

  absl::Status Read(const std::string& name, int64_t offset,
                    const std::atomic<bool>& abandoned,
                    const OnPart& part) override {
    RETURN_IF_ERROR(CheckArtifactName(name));
    const auto read = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(const ObjectLocation location,
                       bucket_.Locate(absl::StrCat(prefix_, name)));
      ASSIGN_OR_RETURN(const ObjectVersion version,
                       reader_.Head(location, abandoned));
      if (offset < 0 || offset > version.size) {
        return absl::OutOfRangeError(
            absl::StrCat(name, ": offset ", offset, " of ", version.size));
      }
      RETURN_IF_ERROR(part(version.size, ""));
      absl::Status refused;
      const absl::Status status = reader_.Get(
          location, version, offset, abandoned, [&](absl::string_view data) {
            return refused = part(version.size,
                                  std::string_view(data.data(), data.size()));
          });
      if (!refused.ok()) return refused;
      // It was replaced, so that what has come is of another file.
      if (absl::IsAborted(status)) return absl::OutOfRangeError(name);
      return status;
    };
    const absl::Status status = read();
    // Keys of services are replaced while transfers are tried again; an expired
    // one is refused as a bad request.
    if (absl::IsPermissionDenied(status) ||
        absl::IsFailedPrecondition(status)) {
      return absl::UnavailableError(status.message());
    }
    return ToStoreStatus(status);
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder, const std::atomic<bool>& abandoned) override {
    RETURN_IF_ERROR(CheckArtifactName(folder));
    const std::string prefix = absl::StrCat(prefix_, folder, "/");
    const absl::StatusOr<std::vector<S3Listing::Object>> objects =
        bucket_.List(prefix, abandoned);
    if (!objects.ok()) return ToStoreStatus(objects.status());
    std::vector<std::string> names;
    for (const S3Listing::Object& object : *objects) {
      std::string name = object.key.substr(prefix.size());
      // Others may have put anything there.
      if (CheckArtifactName(name).ok()) names.push_back(std::move(name));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status Delete(const std::string& name,
                      const std::atomic<bool>& abandoned) override {
    RETURN_IF_ERROR(CheckArtifactName(name));
    return ToStoreStatus(
        bucket_.Delete(absl::StrCat(prefix_, name), abandoned));
  }

  absl::Status Tidy(const std::string& folder, absl::Duration age,
                    const std::atomic<bool>& abandoned) override {
    RETURN_IF_ERROR(CheckArtifactName(folder));
    return ToStoreStatus(bucket_.AbortOldUploads(
        absl::StrCat(prefix_, folder, "/"), age, abandoned));
  }

 private:
  absl::Status SendParts(const CheckpointFile& file, const std::string& key,
                         const std::string& id,
                         const std::atomic<bool>& abandoned,
                         std::vector<std::string>* tags) const {
    const int64_t least = (file.size() + kMaxParts - 1) / kMaxParts;
    const auto part_bytes = static_cast<size_t>(std::max(part_bytes_, least));
    std::string part;
    part.reserve(std::min(part_bytes, static_cast<size_t>(file.size())));
    const auto send = [&]() -> absl::Status {
      const int number = static_cast<int>(tags->size()) + 1;
      ASSIGN_OR_RETURN(std::string tag,
                       bucket_.UploadPart(key, id, number, part, abandoned));
      tags->push_back(std::move(tag));
      part.clear();
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(file.Read(0, [&](std::string_view data) -> absl::Status {
      while (!data.empty()) {
        const size_t room = part_bytes - part.size();
        part.append(data.substr(0, room));
        data.remove_prefix(std::min(room, data.size()));
        if (part.size() == part_bytes) RETURN_IF_ERROR(send());
      }
      return absl::OkStatus();
    }));
    return part.empty() && !tags->empty() ? absl::OkStatus() : send();
  }

  // Frees the parts of an upload that has failed. What stays is freed by Tidy.
  void Abort(const std::string& key, const std::string& id) const {
    const std::atomic<bool> never{false};
    const absl::Status status = hasty_.AbortUpload(key, id, never);
    LOG_IF(WARNING, !status.ok())
        << "parts of an upload are left in the checkpoint store " << status;
  }

  absl::Status CheckArrived(const std::string& key, int64_t size,
                            const std::atomic<bool>& abandoned) const {
    ASSIGN_OR_RETURN(const ObjectLocation location, bucket_.Locate(key));
    ASSIGN_OR_RETURN(const ObjectVersion version,
                     reader_.Head(location, abandoned));
    if (version.size == size) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("the store has ", version.size, " bytes of ", size));
  }

  const S3Bucket bucket_;
  // Gives up soon.
  const S3Bucket hasty_;
  const ObjectClient reader_;
  // Empty, or ends with "/".
  const std::string prefix_;
  const int64_t part_bytes_;
};

}  // namespace

bool IsS3Url(absl::string_view place) {
  return absl::StartsWith(place, kScheme);
}

absl::StatusOr<std::unique_ptr<ArtifactStore>> OpenS3Store(
    const S3StoreOptions& options) {
  const absl::StatusOr<DataUrl> url = ParseDataUrlPrefix(options.url);
  if (!url.ok() || url->scheme != DataUrl::Scheme::kS3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint_store: must be a folder or s3://BUCKET/FOLDER",
        url.ok() ? "" : ": ", url.ok() ? "" : url.status().message()));
  }
  absl::string_view folder = url->path;
  absl::ConsumePrefix(&folder, "/");
  absl::ConsumeSuffix(&folder, "/");
  if (!folder.empty() && !CheckArtifactName(std::string(folder)).ok()) {
    return absl::InvalidArgumentError(
        "checkpoint_store: the folder in the bucket must consist of letters, "
        "digits, \"-\", \"_\", \".\" and \"/\", and no part may begin with a "
        "dot");
  }
  for (const std::string& text : options.data_prefixes) {
    const absl::StatusOr<DataUrl> prefix = ParseDataUrlPrefix(text);
    if (prefix.ok() && (IsBelow(*prefix, *url) || IsBelow(*url, *prefix))) {
      return absl::InvalidArgumentError(
          absl::StrCat("checkpoint_store: jobs may read below ", text,
                       " (--data_url), where checkpoints must not lie"));
    }
  }
  ASSIGN_OR_RETURN(const S3Endpoint endpoint,
                   S3Endpoint::Create(options.endpoint, options.region));
  const S3KeySource keys(options.credentials_file, options.credentials);
  const absl::Status key = keys.Check();
  if (!key.ok()) {
    return absl::Status(key.code(),
                        absl::StrCat("s3_credentials_file: ", key.message()));
  }
  if (options.credentials_file.empty() &&
      options.credentials.access_key_id.empty()) {
    return absl::InvalidArgumentError(
        "checkpoint_store: an S3 store needs a key: --s3_credentials_file, or "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment");
  }
  S3Bucket::Options bucket;
  bucket.bucket = url->host;
  bucket.client = options.client;
  S3Bucket::Options hasty = bucket;
  hasty.client.tries = kAbortTries;
  hasty.client.connect_timeout = kAbortTimeout;
  hasty.client.stall = kAbortTimeout;
  return std::unique_ptr<ArtifactStore>(std::make_unique<S3Store>(
      options, S3Bucket(bucket, endpoint, keys),
      S3Bucket(hasty, endpoint, keys),
      folder.empty() ? "" : absl::StrCat(folder, "/")));
}

}  // namespace comera::worker
