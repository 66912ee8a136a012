// Checks URLs against the operator's prefixes, and makes sources of the files
// behind them.

#include "worker/data/remote_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

// Makes a server's refusal the job's fault: another worker would be refused as
// well.
absl::Status Answered(const absl::Status& status) {
  if (absl::IsPermissionDenied(status) || absl::IsFailedPrecondition(status)) {
    return absl::InvalidArgumentError(status.message());
  }
  return status;
}

// One version of an object as a blob.
class ObjectBlob : public BlobSource {
 public:
  ObjectBlob(const ObjectClient* client, ObjectLocation location,
             ObjectVersion version)
      : client_(*client),
        location_(std::move(location)),
        version_(std::move(version)) {}

  absl::Status Fetch(const std::string& /*name*/, int64_t offset,
                     const std::atomic<bool>& cancelled,
                     const Sink& sink) override {
    absl::Status kept;
    const absl::Status status = client_.Get(
        location_, version_, offset, cancelled, [&](absl::string_view data) {
          kept = sink(std::string_view(data.data(), data.size()));
          return kept;
        });
    // What the worker could not keep is no answer of the server.
    return kept.ok() ? Answered(status) : kept;
  }

 private:
  const ObjectClient& client_;
  const ObjectLocation location_;
  const ObjectVersion version_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RemoteFiles>> RemoteFiles::Create(
    const Options& options) {
  ASSIGN_OR_RETURN(S3Endpoint endpoint,
                   S3Endpoint::Create(options.s3_endpoint, options.s3_region));
  std::unique_ptr<RemoteFiles> files(
      new RemoteFiles(options, std::move(endpoint)));
  for (const std::string& text : options.prefixes) {
    absl::StatusOr<DataUrl> prefix = ParseDataUrlPrefix(text);
    if (!prefix.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("data_url: ", prefix.status().message()));
    }
    files->prefixes_.push_back(*std::move(prefix));
  }
  if (!options.client.ca_file.empty()) {
    const absl::Status status = ReadFile(options.client.ca_file).status();
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("data_ca: ", status.message()));
    }
  }
  const absl::Status key = files->keys_.Check();
  if (!key.ok() && !options.s3_credentials_file.empty()) {
    return absl::Status(key.code(),
                        absl::StrCat("s3_credentials_file: ", key.message()));
  }
  RETURN_IF_ERROR(key);
  return files;
}

bool RemoteFiles::Allows(const DataUrl& url) const {
  return std::any_of(
      prefixes_.begin(), prefixes_.end(),
      [&](const DataUrl& prefix) { return IsBelow(url, prefix); });
}

absl::StatusOr<ObjectLocation> RemoteFiles::Locate(const DataUrl& url) const {
  ObjectLocation location;
  if (url.scheme == DataUrl::Scheme::kHttps) {
    location.url =
        absl::StrCat(WithoutQuery(url),
                     url.query.empty() ? "" : absl::StrCat("?", url.query));
    location.may_redirect = [this](const std::string& text) {
      // What is in its query is the server's affair.
      const absl::StatusOr<DataUrl> to =
          ParseDataUrl(text.substr(0, text.find('?')));
      return to.ok() && Allows(*to);
    };
    return location;
  }
  location.url = endpoint_.Url(url.host, url.path);
  location.plain_http = endpoint_.plain_http();
  ASSIGN_OR_RETURN(location.credentials, keys_.Get());
  if (!location.credentials.access_key_id.empty()) {
    location.s3_region = endpoint_.region();
  }
  return location;
}

absl::StatusOr<RemoteFiles::File> RemoteFiles::Find(
    const DataUrl& url, const std::atomic<bool>& cancelled) const {
  if (!Allows(url)) {
    return absl::InvalidArgumentError(
        prefixes_.empty()
            ? "this worker reads no URLs: its operator allows them with "
              "--data_url"
            : "this worker may not read there: its operator allows URLs with "
              "--data_url");
  }
  ASSIGN_OR_RETURN(ObjectLocation location, Locate(url));
  absl::StatusOr<ObjectVersion> found = client_.Head(location, cancelled);
  if (!found.ok()) return Answered(found.status());
  ObjectVersion version = *std::move(found);
  File file;
  file.version = Sha256Hex(
      absl::StrCat(location.url, "\n", version.size, "\n", version.etag, "\n",
                   version.etag.empty() ? version.last_modified : ""));
  file.size = version.size;
  file.source = std::make_unique<ObjectBlob>(&client_, std::move(location),
                                             std::move(version));
  return file;
}

}  // namespace comera::worker
