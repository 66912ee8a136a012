// Implements the artifact store on a service that speaks S3.

#include "worker/checkpoint/s3_store.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/object_store/s3_bucket.h"
#include "common/object_store/s3_uploader.h"
#include "common/status_macros.h"
#include "proto/data_url.h"
#include "worker/files/plain_file.h"

namespace comera::worker {
namespace {

constexpr absl::string_view kScheme = "s3://";

// An object's errors as the store's: another key or another setting of the
// service may make good what it refuses now.
absl::Status ToStoreStatus(const absl::Status& status) {
  if (absl::IsCancelled(status)) return absl::AbortedError("abandoned");
  return status;
}

class S3Store : public ArtifactStore {
 public:
  S3Store(const ObjectClient::Options& client, const S3Bucket& bucket,
          const S3Uploader& uploader, std::string prefix)
      : bucket_(bucket),
        uploader_(uploader),
        reader_(client),
        prefix_(std::move(prefix)) {}

  absl::Status PutFile(const std::string& name, const PlainFile& file,
                       const std::atomic<bool>& abandoned) override {
    RETURN_IF_ERROR(CheckArtifactName(name));
    const absl::Status status = uploader_.Upload(
        absl::StrCat(prefix_, name), file.size(),
        [&](const ObjectClient::Sink& sink) {
          return file.Read(0, [&](std::string_view data) {
            return sink(absl::string_view(data.data(), data.size()));
          });
        },
        abandoned);
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
  const S3Bucket bucket_;
  const S3Uploader uploader_;
  const ObjectClient reader_;
  // Empty, or ends with "/".
  const std::string prefix_;
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
  if (!options.client.ca_file.empty()) {
    const absl::Status status = ReadFile(options.client.ca_file).status();
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("data_ca: ", status.message()));
    }
  }
  S3Bucket::Options bucket;
  bucket.bucket = url->host;
  bucket.client = options.client;
  return std::unique_ptr<ArtifactStore>(std::make_unique<S3Store>(
      options.client, S3Bucket(bucket, endpoint, keys),
      S3Uploader(bucket, endpoint, keys, options.part_bytes),
      folder.empty() ? "" : absl::StrCat(folder, "/")));
}

}  // namespace comera::worker
