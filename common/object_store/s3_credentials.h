#ifndef COMERA_COMMON_OBJECT_STORE_S3_CREDENTIALS_H_
#define COMERA_COMMON_OBJECT_STORE_S3_CREDENTIALS_H_

#include <string>

#include "absl/status/statusor.h"

namespace comera {

// A key of an S3 account. Nothing of it but the id may be printed.
struct S3Credentials {
  // Empty: requests are not signed, so that only public objects can be read.
  std::string access_key_id;
  std::string secret_access_key;
  // Only temporary keys have one.
  std::string session_token;
};

// Reads the profile "default" of a file in AWS's format:
//   [default]
//   aws_access_key_id = ...
//   aws_secret_access_key = ...
//   aws_session_token = ...
// FailedPrecondition: others than the file's owner and group may read it, or
// its group may write to it. NotFound.
// InvalidArgument, with the line but never with what stands there: malformed,
// or the profile has no key.
absl::StatusOr<S3Credentials> ReadS3CredentialsFile(const std::string& path);

// InvalidArgument: one half of the key is missing, or a character could break
// the headers of requests.
absl::Status CheckS3Credentials(const S3Credentials& credentials);

}  // namespace comera

#endif  // COMERA_COMMON_OBJECT_STORE_S3_CREDENTIALS_H_
