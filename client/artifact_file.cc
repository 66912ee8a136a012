// Writes downloads to temporary files named by their contents, and verifies
// them.

#include "client/artifact_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
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
    const std::string& path, const v1::ArtifactFile& expected,
    Readers readers) {
  // The name depends on the contents, so that a part is only ever continued
  // with the same bytes. It is hashed because the server's checksum may be any
  // text.
  Sha256Stream name;
  name.Add(expected.sha256());
  const std::string temporary =
      absl::StrCat(path, ".", name.Finish().substr(0, 16), ".part");
  const bool closed = readers == Readers::kOwner;
  const int descriptor =
      open(temporary.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
           closed ? 0600 : 0644);
  if (descriptor < 0) return ErrnoStatus(temporary, "cannot create");
  std::unique_ptr<ArtifactFileWriter> writer(
      new ArtifactFileWriter(path, temporary, expected, descriptor));
  // An earlier version may have left the part open to all.
  if (closed && fchmod(descriptor, 0600) != 0) {
    const absl::Status status =
        ErrnoStatus(temporary, "cannot close to others");
    writer->part_ = Part::kOfAnother;
    return status;
  }
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    writer->part_ = Part::kOfAnother;
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": another download of it is going on"));
  }
  if (absl::Status status = writer->ReadPart(); !status.ok()) return status;
  return writer;
}

ArtifactFileWriter::ArtifactFileWriter(std::string path, std::string temporary,
                                       const v1::ArtifactFile& expected,
                                       int descriptor)
    : path_(std::move(path)),
      temporary_path_(std::move(temporary)),
      expected_(expected),
      descriptor_(descriptor) {}

ArtifactFileWriter::~ArtifactFileWriter() {
  if (descriptor_ < 0) return;
  if (part_ == Part::kUseless || (part_ == Part::kKept && size_ == 0)) {
    unlink(temporary_path_.c_str());
  }
  close(descriptor_);
}

absl::Status ArtifactFileWriter::ReadPart() {
  std::string data(1 << 20, '\0');
  while (true) {
    const ssize_t count = read(descriptor_, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(temporary_path_, "cannot read");
    if (count == 0) break;
    sha256_.Add(std::string_view(data.data(), count));
    size_ += count;
  }
  if (size_ <= expected_.size_bytes()) return absl::OkStatus();
  // The part does not belong to this file.
  size_ = 0;
  sha256_ = Sha256Stream();
  if (ftruncate(descriptor_, 0) != 0 || lseek(descriptor_, 0, SEEK_SET) != 0) {
    return ErrnoStatus(temporary_path_, "cannot empty");
  }
  return absl::OkStatus();
}

absl::Status ArtifactFileWriter::Useless(const absl::Status& why) {
  part_ = Part::kUseless;
  return why;
}

absl::Status ArtifactFileWriter::Append(int64_t offset,
                                        const std::string& data) {
  const int64_t count = data.size();
  if (offset < 0 || offset > size_) {
    return Useless(absl::DataLossError(absl::StrCat(
        expected_.path(), ": bytes from ", offset, " came after ", size_)));
  }
  const int64_t known = size_ - offset;
  if (known >= count) return absl::OkStatus();
  if (offset + count > expected_.size_bytes()) {
    return Useless(absl::DataLossError(
        absl::StrCat(expected_.path(), ": more than the announced ",
                     expected_.size_bytes(), " bytes")));
  }
  const char* next = data.data() + known;
  int64_t left = count - known;
  sha256_.Add(std::string_view(next, left));
  size_ += left;
  while (left > 0) {
    const ssize_t written = write(descriptor_, next, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return Useless(ErrnoStatus(temporary_path_, "cannot write"));
    }
    next += written;
    left -= written;
  }
  return absl::OkStatus();
}

absl::Status ArtifactFileWriter::Finish() {
  if (size_ != expected_.size_bytes()) {
    return Useless(absl::DataLossError(
        absl::StrCat(expected_.path(), ": ", size_, " bytes in place of ",
                     expected_.size_bytes())));
  }
  const std::string sha256 = sha256_.Finish();
  if (sha256 != expected_.sha256()) {
    return Useless(absl::DataLossError(
        absl::StrCat(expected_.path(), ": checksum ", sha256, " in place of ",
                     expected_.sha256())));
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
