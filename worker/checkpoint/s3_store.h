#ifndef COMERA_WORKER_CHECKPOINT_S3_STORE_H_
#define COMERA_WORKER_CHECKPOINT_S3_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/object_store/object_client.h"
#include "common/object_store/s3_credentials.h"
#include "worker/report/artifact_store.h"

namespace comera::worker {

struct S3StoreOptions {
  // s3://BUCKET or s3://BUCKET/FOLDER; every file is an object below it.
  std::string url;
  // Prefixes of URLs from which jobs may read data. None may reach the store:
  // jobs would read the states of others.
  std::vector<std::string> data_prefixes;
  // http[s]://host[:port]; empty for AWS.
  std::string endpoint;
  std::string region = "us-east-1";
  // A file in AWS's format, read at each use so that it may be replaced; empty
  // for `credentials`.
  std::string credentials_file;
  S3Credentials credentials;
  ObjectClient::Options client;
  // The least size of the parts in which objects are uploaded; a part is in
  // memory.
  int64_t part_bytes = int64_t{16} << 20;
};

// Whether the place is an S3 URL and not a folder.
bool IsS3Url(absl::string_view place);

// Opens a store in a bucket. Objects have the contents of the files and nothing
// else. They appear when all their parts have arrived. The service is not asked
// anything yet.
//
// InvalidArgument, FailedPrecondition, or an error of ErrnoStatus, with the
// flag: URL, endpoint, region, key or authorities are malformed, missing or, of
// the key, open to others.
absl::StatusOr<std::unique_ptr<ArtifactStore>> OpenS3Store(
    const S3StoreOptions& options);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_S3_STORE_H_
