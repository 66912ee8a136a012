// Compares folders of this machine with folders of buckets, and uploads what
// the bucket lacks.

#include "client/cli/verbs/bucket_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "proto/data_url.h"

namespace comera::client {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = "config.json";
constexpr char kDefaultRegion[] = "us-east-1";
// The least size of the parts of an object, which are in memory.
constexpr int64_t kPartBytes = int64_t{16} << 20;
constexpr size_t kReadBytes = size_t{1} << 20;

// Whether the text can be the key of an object as it is.
bool IsKey(absl::string_view text) {
  for (const absl::string_view part : absl::StrSplit(text, '/')) {
    if (part.empty() || part == "." || part == ".." ||
        !std::all_of(part.begin(), part.end(), [](char c) {
          return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                 absl::StrContains("-_.", c);
        })) {
      return false;
    }
  }
  return true;
}

absl::Status CheckFile(const std::string& flag, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const absl::Status status = ReadFile(path).status();
  return absl::Status(status.code(),
                      absl::StrCat(flag, ": ", status.message()));
}

// Passes the contents of the file on.
absl::Status ReadParts(const std::string& path,
                       const ObjectClient::Sink& sink) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  }
  std::string part(kReadBytes, '\0');
  while (file) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    RETURN_IF_ERROR(sink(
        absl::string_view(part.data(), static_cast<size_t>(file.gcount()))));
  }
  return file.bad() ? absl::DataLossError(absl::StrCat(path, ": not read"))
                    : absl::OkStatus();
}

// The regular files below the folder, by their paths below it.
absl::StatusOr<std::vector<std::string>> FilesBelow(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    if (it->is_directory(error)) continue;
    const std::string name = it->path().lexically_relative(folder).string();
    if (!IsKey(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          it->path().string(),
          ": the names of files in a bucket must consist of letters, digits, "
          "\"-\", \"_\" and \".\""));
    }
    names.push_back(name);
  }
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": ", error.message()));
  }
  // The configuration comes last.
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) {
              return std::make_pair(a == kConfig, a) <
                     std::make_pair(b == kConfig, b);
            });
  return names;
}

int64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? -1 : static_cast<int64_t>(size);
}

}  // namespace

bool IsBucketUrl(const std::string& place) { return HasUrlScheme(place); }

absl::StatusOr<BucketFolder> BucketFolder::Open(
    const std::string& url, const UrlAccess& access, const Session& session,
    const std::atomic<bool>& cancelled) {
  const absl::StatusOr<DataUrl> parsed = ParseDataUrlPrefix(url);
  if (!parsed.ok() || parsed->scheme != DataUrl::Scheme::kS3) {
    return absl::InvalidArgumentError(absl::StrCat(
        url, ": must be a folder or s3://BUCKET/FOLDER",
        parsed.ok() ? "" : ": ", parsed.ok() ? "" : parsed.status().message()));
  }
  absl::string_view folder = parsed->path;
  absl::ConsumePrefix(&folder, "/");
  absl::ConsumeSuffix(&folder, "/");
  if (!folder.empty() && !IsKey(folder)) {
    return absl::InvalidArgumentError(absl::StrCat(
        url,
        ": the folder must consist of letters, digits, \"-\", \"_\", \".\""
        " and \"/\""));
  }
  const absl::StatusOr<S3Endpoint> endpoint = S3Endpoint::Create(
      access.s3_endpoint,
      access.s3_region.empty() ? kDefaultRegion : access.s3_region);
  if (!endpoint.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--",
        absl::StrReplaceAll(endpoint.status().message(), {{"s3_", "s3-"}})));
  }
  RETURN_IF_ERROR(CheckFile("--data-ca", access.data_ca));
  const S3KeySource keys(access.s3_credentials_file, session.env.s3_key);
  const absl::Status key = keys.Check();
  if (!key.ok()) {
    return absl::Status(key.code(),
                        absl::StrCat("--s3-credentials-file: ", key.message()));
  }
  if (access.s3_credentials_file.empty() &&
      session.env.s3_key.access_key_id.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(url,
                     ": a bucket needs a key: --s3-credentials-file, or "
                     "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
                     "environment"));
  }
  S3Bucket::Options bucket;
  bucket.bucket = parsed->host;
  bucket.client.ca_file = access.data_ca;
  BucketFolder result(url, folder.empty() ? "" : absl::StrCat(folder, "/"),
                      S3Bucket(bucket, *endpoint, keys),
                      S3Uploader(bucket, *endpoint, keys, kPartBytes),
                      ObjectClient(bucket.client));
  RETURN_IF_ERROR(result.List(cancelled).status());
  return result;
}

absl::StatusOr<int> BucketFolder::Upload(
    const std::string& folder, bool overwrite,
    const std::atomic<bool>& cancelled) const {
  ASSIGN_OR_RETURN(const auto there, List(cancelled));
  ASSIGN_OR_RETURN(const std::vector<std::string> missing,
                   FindMissing(folder, overwrite, there, cancelled));
  // Nobody must take the old configuration for that of the new files.
  if (!missing.empty() && missing.back() == kConfig &&
      there.count(kConfig) > 0) {
    RETURN_IF_ERROR(
        Explain(bucket_.Delete(absl::StrCat(prefix_, kConfig), cancelled)));
  }
  for (const std::string& name : missing) {
    RETURN_IF_ERROR(
        UploadFile(absl::StrCat(folder, "/", name), name, cancelled));
  }
  return static_cast<int>(missing.size());
}

absl::StatusOr<std::map<std::string, int64_t>> BucketFolder::List(
    const std::atomic<bool>& cancelled) const {
  const auto objects = bucket_.List(prefix_, cancelled);
  if (!objects.ok()) return Explain(objects.status());
  std::map<std::string, int64_t> sizes;
  for (const S3Listing::Object& object : *objects) {
    sizes[object.key.substr(prefix_.size())] = object.size;
  }
  return sizes;
}

absl::StatusOr<std::vector<std::string>> BucketFolder::FindMissing(
    const std::string& folder, bool overwrite,
    const std::map<std::string, int64_t>& there,
    const std::atomic<bool>& cancelled) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesBelow(folder));
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(folder, "/", name);
    const auto found = there.find(name);
    if (found == there.end()) {
      missing.push_back(name);
      continue;
    }
    bool same = found->second == SizeOf(path);
    if (same) {
      ASSIGN_OR_RETURN(same, IsSame(path, name, cancelled));
    }
    if (same) continue;
    if (!overwrite) {
      return absl::FailedPreconditionError(absl::StrCat(
          url_, " has another model: its ", name,
          " differs; choose another folder, or overwrite it with --force"));
    }
    missing.push_back(name);
  }
  return missing;
}

absl::StatusOr<bool> BucketFolder::IsSame(
    const std::string& path, const std::string& name,
    const std::atomic<bool>& cancelled) const {
  Sha256Stream own, other;
  RETURN_IF_ERROR(ReadParts(path, [&](absl::string_view data) {
    own.Add(std::string_view(data.data(), data.size()));
    return absl::OkStatus();
  }));
  const auto read = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const ObjectLocation location,
                     bucket_.Locate(absl::StrCat(prefix_, name)));
    ASSIGN_OR_RETURN(const ObjectVersion version,
                     reader_.Head(location, cancelled));
    return reader_.Get(location, version, 0, cancelled,
                       [&](absl::string_view data) {
                         other.Add(std::string_view(data.data(), data.size()));
                         return absl::OkStatus();
                       });
  };
  RETURN_IF_ERROR(Explain(read()));
  return own.Finish() == other.Finish();
}

absl::Status BucketFolder::UploadFile(
    const std::string& path, const std::string& name,
    const std::atomic<bool>& cancelled) const {
  return Explain(uploader_.Upload(
      absl::StrCat(prefix_, name), std::max(SizeOf(path), int64_t{0}),
      [&](const ObjectClient::Sink& sink) { return ReadParts(path, sink); },
      cancelled));
}

absl::Status BucketFolder::Explain(const absl::Status& status) const {
  if (status.ok() || absl::IsCancelled(status)) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(
          url_, ": ",
          absl::StrReplaceAll(status.message(), {{"--data_ca", "--data-ca"}})));
}

}  // namespace comera::client
