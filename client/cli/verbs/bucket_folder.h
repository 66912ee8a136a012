// Folders of buckets into which the verbs put models.
#ifndef COMERA_CLIENT_CLI_VERBS_BUCKET_FOLDER_H_
#define COMERA_CLIENT_CLI_VERBS_BUCKET_FOLDER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/session/session.h"
#include "client/cli/verbs/url_access.h"
#include "common/object_store/object_client.h"
#include "common/object_store/s3_bucket.h"
#include "common/object_store/s3_uploader.h"

namespace comera::client {

// Whether a place for files is a URL and not a folder of this machine.
bool IsBucketUrl(const std::string& place);

// `s3://BUCKET/FOLDER`: the objects whose keys begin with FOLDER/. Messages
// name the URL or the flag, and no credentials.
class BucketFolder {
 public:
  // Asks the bucket what is there, so that a wrong key or URL is known before
  // there is anything to upload. The key is that of `access` or, without one,
  // of the session's environment. InvalidArgument: URL, endpoint, region or key
  // are malformed or missing. Other errors are those of S3Bucket and of reading
  // the file of the key.
  static absl::StatusOr<BucketFolder> Open(const std::string& url,
                                           const UrlAccess& access,
                                           const Session& session,
                                           const std::atomic<bool>& cancelled);

  // Uploads the files below `folder`; those that are there already stay. A
  // model's config.json comes last, so that who finds it finds the whole model.
  // Returns how many files were uploaded.
  //
  // FailedPrecondition: another file is there, and `overwrite` is not set; then
  // nothing has changed. InvalidArgument: a file's name cannot be that of an
  // object. Other errors are those of S3Uploader and of reading.
  absl::StatusOr<int> Upload(const std::string& folder, bool overwrite,
                             const std::atomic<bool>& cancelled) const;

 private:
  BucketFolder(std::string url, std::string prefix, const S3Bucket& bucket,
               const S3Uploader& uploader, const ObjectClient& reader)
      : url_(std::move(url)),
        prefix_(std::move(prefix)),
        bucket_(bucket),
        uploader_(uploader),
        reader_(reader) {}

  // The sizes of the objects by the rest of their keys.
  absl::StatusOr<std::map<std::string, int64_t>> List(
      const std::atomic<bool>& cancelled) const;
  // Returns the files below `folder` that the bucket lacks, in the order in
  // which they are to be uploaded, by their paths below it.
  absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::string& folder, bool overwrite,
      const std::map<std::string, int64_t>& there,
      const std::atomic<bool>& cancelled) const;
  // Whether the object has the contents of the file, which is as long.
  absl::StatusOr<bool> IsSame(const std::string& path, const std::string& name,
                              const std::atomic<bool>& cancelled) const;
  absl::Status UploadFile(const std::string& path, const std::string& name,
                          const std::atomic<bool>& cancelled) const;
  // The error as the user of the CLI can mend it.
  absl::Status Explain(const absl::Status& status) const;

  const std::string url_;
  // Empty, or ends with "/".
  const std::string prefix_;
  const S3Bucket bucket_;
  const S3Uploader uploader_;
  const ObjectClient reader_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_BUCKET_FOLDER_H_
