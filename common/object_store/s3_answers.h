// The XML that S3 services answer with.
#ifndef COMERA_COMMON_OBJECT_STORE_S3_ANSWERS_H_
#define COMERA_COMMON_OBJECT_STORE_S3_ANSWERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace comera {

// One page of ListObjectsV2.
struct S3Listing {
  struct Object {
    std::string key;
    int64_t size = 0;
  };
  std::vector<Object> objects;
  // The token of the next page; empty: this is the last one.
  std::string next;
};

// One page of ListMultipartUploads.
struct S3Uploads {
  struct Upload {
    std::string key;
    std::string id;
    // By the server's clock.
    absl::Time initiated = absl::InfiniteFuture();
  };
  std::vector<Upload> uploads;
  // Where the next page begins; empty: this is the last one.
  std::string next_key;
  std::string next_id;
};

// FailedPrecondition, of all: the answer is malformed or of another kind.
absl::StatusOr<S3Listing> ParseS3Listing(absl::string_view xml);
absl::StatusOr<S3Uploads> ParseS3Uploads(absl::string_view xml);
// The id of an upload that has begun.
absl::StatusOr<std::string> ParseS3UploadId(absl::string_view xml);
// The end of an upload. The server says 200 before it knows how that ends.
// Unavailable also: it could not put the object together now.
absl::Status ParseS3Completion(absl::string_view xml);

// The code of an error, such as NoSuchBucket or RequestTimeTooSkewed, of
// letters and digits; empty if the answer has none.
std::string ParseS3ErrorCode(absl::string_view xml);

}  // namespace comera

#endif  // COMERA_COMMON_OBJECT_STORE_S3_ANSWERS_H_
