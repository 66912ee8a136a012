#ifndef COMERA_WORKER_CHECKPOINT_CHECKPOINT_FILE_H_
#define COMERA_WORKER_CHECKPOINT_CHECKPOINT_FILE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::worker {

// An open file with a training state, of any size, that is read part by part.
// It can be read to its end also after it was deleted. Move-only; the methods
// may be called from several threads.
class CheckpointFile {
 public:
  using OnPart = std::function<absl::Status(std::string_view data)>;

  // NotFound: there is no such file. InvalidArgument: it is no plain file, e.g.
  // a link. Other errors are those of ErrnoStatus.
  static absl::StatusOr<CheckpointFile> Open(const std::string& path);
  CheckpointFile(CheckpointFile&& other) noexcept;
  CheckpointFile& operator=(CheckpointFile&&) = delete;
  ~CheckpointFile();

  int64_t size() const { return size_; }

  // Passes the bytes from `offset` on to `part`. OutOfRange: `offset` lies
  // behind the end. DataLoss: the file has become shorter. Other errors are
  // those of reading and of `part`.
  absl::Status Read(int64_t offset, const OnPart& part) const;

  // Compares the contents with the checksum at their end. DataLoss: they
  // differ. `sha256`, unless null, gets the digits of the SHA-256 of the whole
  // file. `part`, which may be empty, sees all bytes and may end it by an
  // error.
  absl::Status Verify(std::string* sha256 = nullptr,
                      const OnPart& part = nullptr) const;

 private:
  CheckpointFile(int fd, int64_t size) : fd_(fd), size_(size) {}

  int fd_;
  int64_t size_;
};

// Whether `contents` end with the checksum of the rest.
bool IsWhole(std::string_view contents);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_FILE_H_
