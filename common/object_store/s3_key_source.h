#ifndef COMERA_COMMON_OBJECT_STORE_S3_KEY_SOURCE_H_
#define COMERA_COMMON_OBJECT_STORE_S3_KEY_SOURCE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/object_store/s3_credentials.h"

namespace comera {

// Gives the key with which requests are signed now: a fixed one, or that of a
// file, which is read at each use so that it may be replaced. Immutable and
// thread-safe.
class S3KeySource {
 public:
  // `file` is in AWS's format; empty for `fixed`.
  S3KeySource(std::string file, S3Credentials fixed)
      : file_(std::move(file)), fixed_(std::move(fixed)) {}

  // Whether the key can be had. Errors of ReadS3CredentialsFile and of
  // CheckS3Credentials, which name the file.
  absl::Status Check() const;
  // Unavailable: the file cannot be read now; the message does not say where it
  // lies.
  absl::StatusOr<S3Credentials> Get() const;

 private:
  const std::string file_;
  const S3Credentials fixed_;
};

}  // namespace comera

#endif  // COMERA_COMMON_OBJECT_STORE_S3_KEY_SOURCE_H_
