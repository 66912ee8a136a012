#ifndef COMERA_WORKER_FILES_PLAIN_FILE_H_
#define COMERA_WORKER_FILES_PLAIN_FILE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/files/descriptor.h"
#include "worker/files/open_folder.h"
#include "worker/files/path_below.h"

namespace comera::worker {

// An open file of any size that is read part by part, in a folder where members
// may have put anything: no link is followed, and nothing but a plain file is
// taken. It can be read to its end also after it was deleted or replaced.
// Move-only; the methods may be called from several threads.
class PlainFile {
 public:
  using OnPart = std::function<absl::Status(std::string_view data)>;

  // NotFound: there is no such file. FailedPrecondition: it is no plain file,
  // or a link leads to it. Other errors are those of ErrnoStatus.
  static absl::StatusOr<PlainFile> Open(const PathBelow& path);
  static absl::StatusOr<PlainFile> Open(const OpenFolder& folder,
                                        const std::string& name);
  // Takes an open file; `path` is its name for messages.
  static absl::StatusOr<PlainFile> Take(Descriptor fd, std::string path);

  // The bytes that it had when it was opened.
  int64_t size() const { return size_; }

  // Passes the bytes from `offset` on to `part`. OutOfRange: `offset` lies
  // behind the end. DataLoss: the file has become shorter. Other errors are
  // those of reading and of `part`.
  absl::Status Read(int64_t offset, const OnPart& part) const;

 private:
  PlainFile(Descriptor fd, std::string path, int64_t size)
      : fd_(std::move(fd)), path_(std::move(path)), size_(size) {}

  Descriptor fd_;
  std::string path_;
  int64_t size_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_FILES_PLAIN_FILE_H_
