// Checks a job's URLs against the prefixes that its user allows.
#include "client/cli/verbs/url_access.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/data_paths.h"
#include "proto/data_url.h"

namespace comera::client {

std::vector<Argument> UrlArguments(UrlAccess* access) {
  std::vector<Argument> arguments = {
      {"--data-url",
       "Let the job read data below https://HOST/FOLDER/ or "
       "s3://BUCKET/FOLDER/; repeatable",
       &access->data_urls,
       false,
       {},
       Names::kNothing}};
  for (Argument& one : BucketArguments(access)) {
    arguments.push_back(std::move(one));
  }
  return arguments;
}

std::vector<Argument> BucketArguments(UrlAccess* access) {
  return {{"--data-ca",
           "Authorities of the servers' certificates, PEM file (the system's)",
           &access->data_ca,
           false,
           {},
           Names::kFile},
          {"--s3-endpoint",
           "http[s]://HOST[:PORT] of a service that speaks S3 (AWS)",
           &access->s3_endpoint,
           false,
           {},
           Names::kNothing},
          {"--s3-region",
           "Region of S3 (us-east-1)",
           &access->s3_region,
           false,
           {},
           Names::kNothing},
          {"--s3-credentials-file",
           "Key for S3, as AWS's tools keep it (AWS_ACCESS_KEY_ID and the like "
           "in the environment)",
           &access->s3_credentials_file,
           false,
           {},
           Names::kFile}};
}

absl::Status CheckUrls(const UrlAccess& access, v1::JobSpec job) {
  std::vector<DataUrl> prefixes;
  for (const std::string& text : access.data_urls) {
    absl::StatusOr<DataUrl> prefix = ParseDataUrlPrefix(text);
    if (!prefix.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--data-url: ", prefix.status().message()));
    }
    prefixes.push_back(*std::move(prefix));
  }
  for (const DataPath& path : DataPaths(&job)) {
    if (!HasUrlScheme(*path.path)) continue;
    const absl::StatusOr<DataUrl> url = ParseDataUrl(*path.path);
    if (!url.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path.field, ": ", url.status().message()));
    }
    if (!std::any_of(
            prefixes.begin(), prefixes.end(),
            [&](const DataUrl& prefix) { return IsBelow(*url, prefix); })) {
      return absl::InvalidArgumentError(
          absl::StrCat(path.field, ": ", WithoutQuery(*url),
                       " lies below no --data-url; --data-url=PREFIX lets the "
                       "job read there"));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> WorkerFlags(const UrlAccess& access) {
  std::vector<std::string> flags;
  for (const std::string& url : access.data_urls) {
    flags.push_back(absl::StrCat("--data_url=", url));
  }
  const std::pair<const char*, const std::string*> others[] = {
      {"--data_ca=", &access.data_ca},
      {"--s3_endpoint=", &access.s3_endpoint},
      {"--s3_region=", &access.s3_region},
      {"--s3_credentials_file=", &access.s3_credentials_file}};
  for (const auto& [flag, value] : others) {
    if (!value->empty()) flags.push_back(absl::StrCat(flag, *value));
  }
  return flags;
}

}  // namespace comera::client
