// Reads files with training states in parts, and verifies their checksums.

#include "worker/checkpoint/checkpoint_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

constexpr size_t kPartBytes = size_t{1} << 20;
constexpr char kTrailer[] = "\nsha256 ";
constexpr size_t kTrailerBytes = 8 + 64 + 1;

}  // namespace

absl::StatusOr<CheckpointFile> CheckpointFile::Open(const std::string& path) {
  // The trainer's user, who may be another, can put anything in its place.
  const int fd =
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ELOOP) {
    return absl::InvalidArgumentError(path + " is a link");
  }
  if (fd < 0) return ErrnoStatus(errno, "open " + path);
  CheckpointFile file(fd, 0);
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(path + " is no plain file");
  }
  file.size_ = info.st_size;
  return file;
}

CheckpointFile::CheckpointFile(CheckpointFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

CheckpointFile::~CheckpointFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status CheckpointFile::Read(int64_t offset, const OnPart& part) const {
  if (offset < 0 || offset > size_) {
    return absl::OutOfRangeError(
        absl::StrCat("offset ", offset, " of ", size_));
  }
  std::string buffer(std::min(kPartBytes, static_cast<size_t>(size_ - offset)),
                     '\0');
  while (offset < size_) {
    const size_t wanted =
        std::min(buffer.size(), static_cast<size_t>(size_ - offset));
    const ssize_t count = ::pread(fd_, buffer.data(), wanted, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "read a checkpoint");
    if (count == 0) return absl::DataLossError("truncated");
    RETURN_IF_ERROR(
        part(std::string_view(buffer.data(), static_cast<size_t>(count))));
    offset += count;
  }
  return absl::OkStatus();
}

absl::Status CheckpointFile::Verify(std::string* sha256,
                                    const OnPart& part) const {
  if (size_ < static_cast<int64_t>(kTrailerBytes)) {
    return absl::DataLossError("truncated");
  }
  const int64_t body = size_ - static_cast<int64_t>(kTrailerBytes);
  Sha256Stream of_body, of_all;
  std::string trailer;
  int64_t at = 0;
  RETURN_IF_ERROR(Read(0, [&](std::string_view data) {
    const auto own = static_cast<size_t>(
        std::clamp<int64_t>(body - at, 0, static_cast<int64_t>(data.size())));
    of_body.Add(data.substr(0, own));
    if (sha256 != nullptr) of_all.Add(data);
    trailer.append(data.substr(own));
    at += static_cast<int64_t>(data.size());
    return part == nullptr ? absl::OkStatus() : part(data);
  }));
  if (trailer != absl::StrCat(kTrailer, of_body.Finish(), "\n")) {
    return absl::DataLossError("its checksum differs");
  }
  if (sha256 != nullptr) *sha256 = of_all.Finish();
  return absl::OkStatus();
}

bool IsWhole(std::string_view contents) {
  if (contents.size() < kTrailerBytes) return false;
  const std::string_view body =
      contents.substr(0, contents.size() - kTrailerBytes);
  return contents.substr(body.size()) ==
         absl::StrCat(kTrailer, Sha256Hex(body), "\n");
}

}  // namespace comera::worker
