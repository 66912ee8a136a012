// Files of artifacts: artifacts/<job>/<model>/<file> below the data folder.
// Everything here blocks on the disk; for the IO thread.
#ifndef COMERA_SERVER_RUNTIME_ARTIFACT_FILES_H_
#define COMERA_SERVER_RUNTIME_ARTIFACT_FILES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/worker_service.pb.h"
#include "common/sha256.h"
#include "server/runtime/file_handle.h"

namespace comera::server {

// InvalidArgument unless artifact name, file name ([A-Za-z0-9._-], no leading
// dot), size and checksum are well formed.
absl::Status ValidateUpload(const v1::UploadArtifactHeader& header);

// `artifact` and `file` must be valid.
std::string ArtifactPath(const std::string& data_dir,
                         const std::string& artifact, const std::string& file);

// Removes what interrupted uploads left.
absl::Status CleanUploads(const std::string& data_dir);

// Receives one file: into a temporary one, checked, then renamed.
//
//   ASSIGN_OR_RETURN(auto upload, ArtifactUpload::Begin(data_dir, header));
//   RETURN_IF_ERROR(upload->Add(bytes));  // any number of times
//   RETURN_IF_ERROR(upload->Verify());
//   RETURN_IF_ERROR(upload->Publish());
class ArtifactUpload {
 public:
  // InvalidArgument (ValidateUpload), ResourceExhausted, Unavailable.
  static absl::StatusOr<std::unique_ptr<ArtifactUpload>> Begin(
      const std::string& data_dir, const v1::UploadArtifactHeader& header);
  // Removes what was not published.
  ~ArtifactUpload();

  // DataLoss: more than the declared size.
  absl::Status Add(const std::string& data);
  // DataLoss: size or checksum differ. The bytes are on disk afterwards.
  absl::Status Verify();
  // The file appears under its name, whole, and stays after a crash.
  absl::Status Publish();

 private:
  ArtifactUpload() = default;

  v1::UploadArtifactHeader header_;
  std::string temporary_;
  std::string path_;
  FileHandle file_;
  Sha256Stream sha256_;
  int64_t received_ = 0;
  bool published_ = false;
};

// Sends one file from an offset.
class ArtifactDownload {
 public:
  // NotFound; OutOfRange: offset past the end; DataLoss: another size than
  // recorded.
  static absl::StatusOr<std::unique_ptr<ArtifactDownload>> Begin(
      const std::string& path, const v1::ArtifactFile& expected,
      int64_t offset);

  int64_t offset() const { return offset_; }
  // Empty at the end. DataLoss: the checksum differs (known at the end, and
  // only of files read from offset 0).
  absl::StatusOr<std::string> Next(size_t max_bytes);

 private:
  ArtifactDownload() = default;

  v1::ArtifactFile expected_;
  FileHandle file_;
  Sha256Stream sha256_;
  bool from_start_ = false;
  int64_t offset_ = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_RUNTIME_ARTIFACT_FILES_H_
