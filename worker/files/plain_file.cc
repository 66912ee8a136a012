// Reads plain files in parts, and opens nothing else.

#include "worker/files/plain_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

constexpr size_t kPartBytes = size_t{1} << 20;

}  // namespace

absl::StatusOr<PlainFile> PlainFile::Open(const PathBelow& path) {
  ASSIGN_OR_RETURN(const OpenFolder folder, OpenFolder::Open(path.Parent()));
  return Open(folder, path.Name());
}

absl::StatusOr<PlainFile> PlainFile::Open(const OpenFolder& folder,
                                          const std::string& name) {
  // O_NONBLOCK, because a pipe would be waited for.
  ASSIGN_OR_RETURN(Descriptor fd, folder.OpenFile(name, O_RDONLY | O_NONBLOCK));
  return Take(std::move(fd), folder.path().Child(name).ToString());
}

absl::StatusOr<PlainFile> PlainFile::Take(Descriptor fd, std::string path) {
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        path + " is something else, where a plain file was expected");
  }
  return PlainFile(std::move(fd), std::move(path), info.st_size);
}

absl::Status PlainFile::Read(int64_t offset, const OnPart& part) const {
  if (offset < 0 || offset > size_) {
    return absl::OutOfRangeError(
        absl::StrCat("offset ", offset, " of ", size_));
  }
  std::string buffer(std::min(kPartBytes, static_cast<size_t>(size_ - offset)),
                     '\0');
  while (offset < size_) {
    const size_t wanted =
        std::min(buffer.size(), static_cast<size_t>(size_ - offset));
    const ssize_t count = ::pread(fd_.get(), buffer.data(), wanted, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "read " + path_);
    if (count == 0) return absl::DataLossError(path_ + ": truncated");
    RETURN_IF_ERROR(
        part(std::string_view(buffer.data(), static_cast<size_t>(count))));
    offset += count;
  }
  return absl::OkStatus();
}

}  // namespace comera::worker
