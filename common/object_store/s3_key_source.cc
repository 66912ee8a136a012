// Reads the key for S3 anew at each use.

#include "common/object_store/s3_key_source.h"

#include "common/log.h"

namespace comera {

absl::Status S3KeySource::Check() const {
  return file_.empty() ? CheckS3Credentials(fixed_)
                       : ReadS3CredentialsFile(file_).status();
}

absl::StatusOr<S3Credentials> S3KeySource::Get() const {
  if (file_.empty()) return fixed_;
  absl::StatusOr<S3Credentials> credentials = ReadS3CredentialsFile(file_);
  if (credentials.ok()) return credentials;
  // Perhaps it is just being replaced. Who may read the job need not know where
  // it lies.
  LOG(ERROR) << "S3 key not read " << credentials.status();
  return absl::UnavailableError("the key for S3 cannot be read");
}

}  // namespace comera
