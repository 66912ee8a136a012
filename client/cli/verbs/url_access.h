// The URLs from which the job of `comera run` may read data.
#ifndef COMERA_CLIENT_CLI_VERBS_URL_ACCESS_H_
#define COMERA_CLIENT_CLI_VERBS_URL_ACCESS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/session/verb.h"
#include "comera/v1/job.pb.h"

namespace comera::client {

// What comera-worker's flags of the same names mean (docs/datasets.md). Paths
// of files are absolute.
struct UrlAccess {
  std::vector<std::string> data_urls;
  std::string data_ca;
  std::string s3_endpoint;
  std::string s3_region;
  std::string s3_credentials_file;
};

// The arguments --data-url, --data-ca, --s3-endpoint, --s3-region and
// --s3-credentials-file.
std::vector<Argument> UrlArguments(UrlAccess* access);

// All of them but --data-url, for verbs that put models into a bucket.
std::vector<Argument> BucketArguments(UrlAccess* access);

// Checks the prefixes and the job's URLs. InvalidArgument: a prefix is
// malformed, or a URL of the job lies below none of them.
absl::Status CheckUrls(const UrlAccess& access, v1::JobSpec job);

// The flags that give the worker this access.
std::vector<std::string> WorkerFlags(const UrlAccess& access);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_URL_ACCESS_H_
