// The receiving end of a download.
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

// Writes a temporary file beside `path`, checks it against what was announced,
// and renames it. What a broken download left is continued; only what turns out
// to be of no use is removed. Not thread-safe.
class ArtifactFileWriter {
 public:
  // Unavailable: the file cannot be created. FailedPrecondition: another
  // process downloads the same to there.
  static absl::StatusOr<std::unique_ptr<ArtifactFileWriter>> Create(
      const std::string& path, const v1::ArtifactFile& expected);
  ~ArtifactFileWriter();

  // Bytes so far: where to resume.
  int64_t size() const { return size_; }

  // Bytes from `offset` on; those known already are skipped. DataLoss: a gap,
  // or more bytes than announced. ResourceExhausted: disk full.
  absl::Status Append(int64_t offset, const std::string& data);

  // DataLoss: too few bytes, or another checksum.
  absl::Status Finish();

 private:
  // What becomes of the temporary file without a successful Finish.
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

// Whether a file name from a server may be used as a name in a folder of ours.
bool IsPlainFileName(const std::string& name);

}  // namespace comera::client

#endif  // COMERA_CLIENT_ARTIFACT_FILE_H_
