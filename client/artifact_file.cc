#include "client/artifact_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::client {
namespace {

absl::Status ErrnoStatus(const std::string& path, const char* what) {
  const int error = errno;
  const std::string message =
      absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(message);
  }
  if (error == EACCES || error == EROFS) {
    return absl::PermissionDeniedError(message);
  }
  return absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArtifactFileWriter>> ArtifactFileWriter::Create(
    const std::string& path, const v1::ArtifactFile& expected) {
  // The process id keeps two downloads to one place apart.
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".part");
  const int descriptor =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return ErrnoStatus(temporary, "cannot create");
  return std::unique_ptr<ArtifactFileWriter>(
      new ArtifactFileWriter(path, expected, descriptor));
}

ArtifactFileWriter::ArtifactFileWriter(std::string path,
                                       const v1::ArtifactFile& expected,
                                       int descriptor)
    : path_(std::move(path)),
      temporary_path_(absl::StrCat(path_, ".", getpid(), ".part")),
      expected_(expected),
      descriptor_(descriptor) {}

ArtifactFileWriter::~ArtifactFileWriter() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_path_.c_str());
}

absl::Status ArtifactFileWriter::Append(int64_t offset,
                                        const std::string& data) {
  const int64_t count = data.size();
  if (offset < 0 || offset > size_) {
    return absl::DataLossError(absl::StrCat(expected_.path(), ": bytes from ",
                                            offset, " came after ", size_));
  }
  const int64_t known = size_ - offset;
  if (known >= count) return absl::OkStatus();
  if (offset + count > expected_.size_bytes()) {
    return absl::DataLossError(absl::StrCat(expected_.path(),
                                            ": more than the announced ",
                                            expected_.size_bytes(), " bytes"));
  }
  const char* next = data.data() + known;
  int64_t left = count - known;
  sha256_.Add(std::string_view(next, left));
  size_ += left;
  while (left > 0) {
    const ssize_t written = write(descriptor_, next, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(temporary_path_, "cannot write");
    next += written;
    left -= written;
  }
  return absl::OkStatus();
}

absl::Status ArtifactFileWriter::Finish() {
  if (size_ != expected_.size_bytes()) {
    return absl::DataLossError(absl::StrCat(expected_.path(), ": ", size_,
                                            " bytes in place of ",
                                            expected_.size_bytes()));
  }
  const std::string sha256 = sha256_.Finish();
  if (sha256 != expected_.sha256()) {
    return absl::DataLossError(absl::StrCat(expected_.path(), ": checksum ",
                                            sha256, " in place of ",
                                            expected_.sha256()));
  }
  if (fsync(descriptor_) != 0) {
    return ErrnoStatus(temporary_path_, "cannot sync");
  }
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(path_, "cannot rename to");
  }
  close(descriptor_);
  descriptor_ = -1;
  return absl::OkStatus();
}

bool IsPlainFileName(const std::string& name) {
  if (name.empty() || name[0] == '.' || name.size() > 255) return false;
  for (const char c : name) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '/' || byte < 0x20 || byte >= 0x7F) return false;
  }
  return true;
}

}  // namespace comera::client
