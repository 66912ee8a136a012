#ifndef COMERA_COMMON_OBJECT_STORE_S3_UPLOADER_H_
#define COMERA_COMMON_OBJECT_STORE_S3_UPLOADER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/object_store/object_client.h"
#include "common/object_store/s3_bucket.h"
#include "common/object_store/s3_endpoint.h"
#include "common/object_store/s3_key_source.h"

namespace comera {

// Uploads objects of any size in parts, each of which the bucket verifies by
// checksums and is sent again if it arrives otherwise. An object appears when
// all its parts have arrived; the parts of an upload that fails are freed.
// Immutable and thread-safe.
class S3Uploader {
 public:
  // Passes an object's bytes on, in order; an error of the sink ends it and is
  // its result.
  using Source = std::function<absl::Status(const ObjectClient::Sink& sink)>;

  // Parts have at least `part_bytes`, which are in memory.
  S3Uploader(const S3Bucket::Options& bucket, const S3Endpoint& endpoint,
             const S3KeySource& keys, int64_t part_bytes);

  // Uploads `size` bytes over what has the key. Errors are those of S3Bucket
  // and of `source`. Unavailable also: what is there then is something else.
  absl::Status Upload(const std::string& key, int64_t size,
                      const Source& source,
                      const std::atomic<bool>& cancelled) const;

 private:
  absl::Status SendParts(const std::string& key, const std::string& id,
                         int64_t size, const Source& source,
                         const std::atomic<bool>& cancelled,
                         std::vector<std::string>* tags) const;
  // Frees the parts of an upload that has failed.
  void Abort(const std::string& key, const std::string& id) const;
  // Whether the object is there. `tag`, unless empty, is what it must have.
  absl::Status CheckArrived(const std::string& key, int64_t size,
                            const std::string& tag,
                            const std::atomic<bool>& cancelled) const;

  const S3Bucket bucket_;
  // Gives up soon.
  const S3Bucket hasty_;
  const ObjectClient reader_;
  const int64_t part_bytes_;
};

}  // namespace comera

#endif  // COMERA_COMMON_OBJECT_STORE_S3_UPLOADER_H_
