#ifndef COMERA_WORKER_REPORT_GROWING_FILE_H_
#define COMERA_WORKER_REPORT_GROWING_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::worker {

// A file that comes part by part: it grows beside its place, under another
// name, and appears in its place whole. What has come stays over the end of
// this object and of the process, so that it can be gone on with.
//
// Only one GrowingFile at a time has a name, over all processes. Move-only; not
// thread-safe. Errors are those of ErrnoStatus (common/files.h), of which
// ResourceExhausted means that the disk is full.
class GrowingFile {
 public:
  // Opens `temporary`, which must lie on the same disk as `path`, and goes on
  // after the bytes that it has. Links and files with a second name, which
  // others may have put there, are removed. Aborted: another GrowingFile has
  // it open.
  static absl::StatusOr<GrowingFile> Open(std::string path,
                                          std::string temporary);
  GrowingFile(GrowingFile&& other) noexcept;
  GrowingFile& operator=(GrowingFile&&) = delete;
  ~GrowingFile();

  // The bytes that have come.
  int64_t size() const { return size_; }
  // The name under which it grows.
  const std::string& temporary() const { return temporary_; }

  absl::Status Append(std::string_view data);
  // Begins anew with no bytes.
  absl::Status Reset();
  // Makes it durable and moves it to its place, over what is there.
  absl::Status Commit();
  // Removes it. Neither this nor Commit may be followed by other calls.
  void Discard();

 private:
  GrowingFile(std::string path, std::string temporary, int fd, int64_t size);

  std::string path_;
  std::string temporary_;
  int fd_;
  int64_t size_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_GROWING_FILE_H_
