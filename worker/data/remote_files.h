#ifndef COMERA_WORKER_DATA_REMOTE_FILES_H_
#define COMERA_WORKER_DATA_REMOTE_FILES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/object_store/object_client.h"
#include "common/object_store/s3_credentials.h"
#include "common/object_store/s3_endpoint.h"
#include "common/object_store/s3_key_source.h"
#include "proto/data_url.h"
#include "worker/data/blob_source.h"

namespace comera::worker {

// The files at URLs that jobs may name as data: those below the prefixes that
// this worker's operator allows. Immutable and thread-safe.
class RemoteFiles {
 public:
  struct Options {
    // https:// and s3:// URLs; none allow nothing. Redirects must stay below
    // them, too.
    std::vector<std::string> prefixes;
    // http[s]://host[:port]; empty for AWS.
    std::string s3_endpoint;
    std::string s3_region = "us-east-1";
    // A file in AWS's format, read at each use so that it may be replaced;
    // empty for `s3_credentials`.
    std::string s3_credentials_file;
    S3Credentials s3_credentials;
    ObjectClient::Options client;
  };

  // One version of a file.
  struct File {
    // Digest of the URL and the version, in the form of a SHA-256.
    std::string version;
    int64_t size = 0;
    // Fetches the bytes of `version`, whatever name it is asked for.
    std::unique_ptr<BlobSource> source;
  };

  // InvalidArgument or FailedPrecondition, with the flag: a prefix, the
  // endpoint or the credentials are malformed or open to others. Errors of
  // ErrnoStatus, with the flag: a file of the options cannot be read.
  static absl::StatusOr<std::unique_ptr<RemoteFiles>> Create(
      const Options& options);

  // Asks the server for the file's present version. InvalidArgument: no prefix
  // allows the URL, or the server refuses it. Unavailable also: the credentials
  // cannot be read now. Other errors are those of ObjectClient::Head. The
  // source must not outlive this object; it returns InvalidArgument where the
  // server refuses, and errors of the sink as they are.
  absl::StatusOr<File> Find(const DataUrl& url,
                            const std::atomic<bool>& cancelled) const;

 private:
  RemoteFiles(const Options& options, S3Endpoint endpoint)
      : options_(options),
        endpoint_(std::move(endpoint)),
        keys_(options.s3_credentials_file, options.s3_credentials),
        client_(options.client) {}

  bool Allows(const DataUrl& url) const;
  absl::StatusOr<ObjectLocation> Locate(const DataUrl& url) const;

  const Options options_;
  const S3Endpoint endpoint_;
  const S3KeySource keys_;
  const ObjectClient client_;
  std::vector<DataUrl> prefixes_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_REMOTE_FILES_H_
