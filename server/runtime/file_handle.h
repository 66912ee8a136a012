#ifndef COMERA_SERVER_RUNTIME_FILE_HANDLE_H_
#define COMERA_SERVER_RUNTIME_FILE_HANDLE_H_

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::server {

// An open file that is closed with its owner. Move-only; not thread-safe.
class FileHandle {
 public:
  FileHandle() = default;
  FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileHandle();

  // `flags` as for open(2); files are created with mode 0640.
  static absl::StatusOr<FileHandle> Open(const std::string& path, int flags);

  absl::StatusOr<int64_t> Size() const;
  // All of `data` at `offset`.
  absl::Status WriteAt(int64_t offset, std::string_view data);
  // At most `max_bytes`, fewer at the end of the file.
  absl::StatusOr<std::string> ReadAt(int64_t offset, size_t max_bytes) const;
  absl::Status Sync();

  int fd() const { return fd_; }

 private:
  explicit FileHandle(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_RUNTIME_FILE_HANDLE_H_
