// Writes a downloaded file, resuming an earlier download if there is one.
#ifndef COMERA_CLIENT_ARTIFACT_FILE_H_
#define COMERA_CLIENT_ARTIFACT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "common/sha256.h"

namespace comera::client {

// Writes a temporary file beside `path`, checks it against the announced size
// and checksum, and renames it. A later download continues what a broken one
// left, unless it proves useless. Not thread-safe.
class ArtifactFileWriter {
 public:
  // The users who may read the file, from its first byte on: those whom the
  // process's umask lets, or its owner alone.
  enum class Readers { kByUmask, kOwner };

  // Unavailable: the file cannot be created. FailedPrecondition: another
  // process is downloading the same file to the same path.
  static absl::StatusOr<std::unique_ptr<ArtifactFileWriter>> Create(
      const std::string& path, const v1::ArtifactFile& expected,
      Readers readers = Readers::kByUmask);
  ~ArtifactFileWriter();

  // The number of bytes so far, i.e. the offset to resume at.
  int64_t size() const { return size_; }

  // Appends the bytes from `offset` on; bytes that are known already are
  // skipped. DataLoss: there is a gap, or more bytes than announced.
  // ResourceExhausted: the disk is full.
  absl::Status Append(int64_t offset, const std::string& data);

  // DataLoss: too few bytes, or another checksum.
  absl::Status Finish();

 private:
  // What happens to the temporary file without a successful Finish.
  enum class Part { kKept, kUseless, kOfAnother };

  ArtifactFileWriter(std::string path, std::string temporary,
                     const v1::ArtifactFile& expected, int descriptor);
  absl::Status ReadPart();
  absl::Status Useless(const absl::Status& why);

  const std::string path_;
  const std::string temporary_path_;
  const v1::ArtifactFile expected_;
  int descriptor_;
  Part part_ = Part::kKept;
  int64_t size_ = 0;
  Sha256Stream sha256_;
};

// Whether a file name sent by a server is safe as the name of a local file.
bool IsPlainFileName(const std::string& name);

}  // namespace comera::client

#endif  // COMERA_CLIENT_ARTIFACT_FILE_H_
