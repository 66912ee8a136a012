// Opens and reads files with errors as statuses.
#include "server/runtime/file_handle.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"

namespace comera::server {

FileHandle::~FileHandle() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<FileHandle> FileHandle::Open(const std::string& path,
                                            int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (fd < 0) return ErrnoStatus(errno, path);
  return FileHandle(fd);
}

absl::StatusOr<int64_t> FileHandle::Size() const {
  struct stat info;
  if (fstat(fd_, &info) != 0) return ErrnoStatus(errno, "fstat");
  return static_cast<int64_t>(info.st_size);
}

absl::Status FileHandle::WriteAt(int64_t offset, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = pwrite(fd_, data.data(), data.size(), offset);
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "pwrite");
    }
    offset += written;
    data.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FileHandle::ReadAt(int64_t offset,
                                               size_t max_bytes) const {
  std::string data(max_bytes, '\0');
  size_t filled = 0;
  while (filled < max_bytes) {
    const ssize_t count =
        pread(fd_, data.data() + filled, max_bytes - filled, offset + filled);
    if (count < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "pread");
    }
    if (count == 0) break;
    filled += count;
  }
  data.resize(filled);
  return data;
}

absl::Status FileHandle::Sync() {
  if (fsync(fd_) != 0) return ErrnoStatus(errno, "fsync");
  return absl::OkStatus();
}

}  // namespace comera::server
