#ifndef COMERA_COMMON_OBJECT_STORE_S3_BUCKET_H_
#define COMERA_COMMON_OBJECT_STORE_S3_BUCKET_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/object_store/object_client.h"
#include "common/object_store/object_exchange.h"
#include "common/object_store/s3_answers.h"
#include "common/object_store/s3_endpoint.h"
#include "common/object_store/s3_key_source.h"

namespace comera {

// One bucket of a service that speaks S3: lists, deletes and uploads objects in
// parts, and says where an ObjectClient finds them. Keys are of
// [A-Za-z0-9._/-]. Immutable and thread-safe. Errors name neither keys nor
// credentials.
//
//   ASSIGN_OR_RETURN(std::string id, bucket.BeginUpload(key, cancelled));
//   ASSIGN_OR_RETURN(std::string tag,
//                    bucket.UploadPart(key, id, 1, data, cancelled));
//   RETURN_IF_ERROR(bucket.EndUpload(key, id, {tag}, cancelled));
//
// Until the end nobody sees the object.
//
// All return: Cancelled. NotFound: no such bucket or upload. PermissionDenied:
// the server refuses the key or is not trusted. ResourceExhausted: the server
// has no room. Unavailable: after some tries the network, the server or the
// file of the key still fails. FailedPrecondition: any other answer.
class S3Bucket {
 public:
  struct Options {
    std::string bucket;
    ObjectClient::Options client;
    // The objects in one page of a listing.
    int page = 1000;
    // How long the server may take to put the parts of an object together.
    absl::Duration end_stall = absl::Minutes(5);
  };

  S3Bucket(const Options& options, S3Endpoint endpoint, S3KeySource keys)
      : options_(options),
        endpoint_(std::move(endpoint)),
        keys_(std::move(keys)) {}

  // Where an ObjectClient reads the object.
  absl::StatusOr<ObjectLocation> Locate(const std::string& key) const;

  // The objects whose keys begin with `prefix`, by key.
  absl::StatusOr<std::vector<S3Listing::Object>> List(
      const std::string& prefix, const std::atomic<bool>& cancelled) const;

  // Succeeds also if there is no such object.
  absl::Status Delete(const std::string& key,
                      const std::atomic<bool>& cancelled) const;

  // Returns the id of the upload.
  absl::StatusOr<std::string> BeginUpload(
      const std::string& key, const std::atomic<bool>& cancelled) const;
  // Returns the part's tag. Parts but the last have at least 5 MiB; `number`
  // counts from 1 to 10,000. The server compares what comes with its SHA-256,
  // and the server's MD5 is compared with what was sent; a part that differs is
  // sent again.
  absl::StatusOr<std::string> UploadPart(
      const std::string& key, const std::string& id, int number,
      absl::string_view data, const std::atomic<bool>& cancelled) const;
  // Puts the object together of the parts with these tags, over what has the
  // key. NotFound also: an earlier try may have ended the upload.
  absl::Status EndUpload(const std::string& key, const std::string& id,
                         const std::vector<std::string>& tags,
                         const std::atomic<bool>& cancelled) const;
  // Frees the parts; succeeds also if there is no such upload.
  absl::Status AbortUpload(const std::string& key, const std::string& id,
                           const std::atomic<bool>& cancelled) const;
  // Aborts uploads below `prefix` that began `age` ago, by the server's clock.
  absl::Status AbortOldUploads(const std::string& prefix, absl::Duration age,
                               const std::atomic<bool>& cancelled) const;

 private:
  struct Answer {
    ObjectHead head;
    std::string body;
  };
  // Makes one signed request, with tries. `path` begins with "/"; the names in
  // `query` are in order, as the signature wants them. `check` judges a good
  // answer; may be null.
  absl::StatusOr<Answer> Ask(
      const std::string& method, const std::string& path,
      const std::string& query, absl::string_view body,
      const std::atomic<bool>& cancelled,
      const std::function<absl::Status(const Answer&)>& check = nullptr) const;
  absl::StatusOr<Answer> AskOnce(const std::string& method,
                                 const std::string& path,
                                 const std::string& query,
                                 absl::string_view body,
                                 const std::atomic<bool>& cancelled) const;

  const Options options_;
  const S3Endpoint endpoint_;
  const S3KeySource keys_;
};

}  // namespace comera

#endif  // COMERA_COMMON_OBJECT_STORE_S3_BUCKET_H_
