// Appends to a temporary file under a lock, and renames it when it is whole.

#include "worker/report/growing_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/files.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

// How often a file is opened anew that was moved or replaced meanwhile.
constexpr int kMaxTries = 8;
constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK;
constexpr mode_t kMode = 0644;

// Aborted: another has it.
absl::Status Lock(int fd, const std::string& path) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  const int error = errno;
  if (error == EWOULDBLOCK) {
    return absl::AbortedError(path + " is being written to");
  }
  // Some shared file systems have no locks. Two writers of one file are rare,
  // and a mixture of theirs fails its checksum.
  if (error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP) {
    return absl::OkStatus();
  }
  return ErrnoStatus(error, "lock " + path);
}

}  // namespace

GrowingFile::GrowingFile(OpenFolder folder, std::string name,
                         std::string temporary, Descriptor fd)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      temporary_(std::move(temporary)),
      fd_(std::move(fd)) {}

std::string GrowingFile::Path() const {
  return folder_.path().Child(temporary_).ToString();
}

absl::StatusOr<GrowingFile> GrowingFile::Open(OpenFolder folder,
                                              std::string name,
                                              std::string temporary) {
  const std::string path = folder.path().Child(temporary).ToString();
  absl::Status refused;
  for (int i = 0; i < kMaxTries; ++i) {
    absl::StatusOr<Descriptor> fd = folder.OpenFile(temporary, kFlags, kMode);
    if (absl::IsFailedPrecondition(fd.status()) ||
        absl::IsUnavailable(fd.status())) {
      // A link or a socket.
      refused = fd.status();
      if (!folder.SizeOf(temporary)) RETURN_IF_ERROR(folder.Remove(temporary));
      continue;
    }
    RETURN_IF_ERROR(fd.status());
    RETURN_IF_ERROR(Lock(fd->get(), path));
    struct stat info = {};
    if (::fstat(fd->get(), &info) != 0) return ErrnoStatus(errno, path);
    if (S_ISREG(info.st_mode) && folder.IsOnlyNameOf(temporary, fd->get())) {
      GrowingFile file(std::move(folder), std::move(name), std::move(temporary),
                       *std::move(fd));
      file.size_ = info.st_size;
      return file;
    }
    // Whoever had the lock before has moved it to its place, or it is a second
    // name of another file.
    if (!S_ISREG(info.st_mode) || info.st_nlink > 1) {
      RETURN_IF_ERROR(folder.Remove(temporary));
    }
  }
  RETURN_IF_ERROR(refused);
  return absl::UnavailableError(path + " is replaced again and again");
}

absl::StatusOr<GrowingFile> GrowingFile::Create(OpenFolder folder,
                                                std::string name,
                                                std::string temporary) {
  RETURN_IF_ERROR(folder.Remove(temporary));
  ASSIGN_OR_RETURN(Descriptor fd,
                   folder.OpenFile(temporary, kFlags | O_EXCL, kMode));
  RETURN_IF_ERROR(Lock(fd.get(), folder.path().Child(temporary).ToString()));
  return GrowingFile(std::move(folder), std::move(name), std::move(temporary),
                     std::move(fd));
}

absl::StatusOr<PlainFile> GrowingFile::Contents() const {
  Descriptor fd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (fd.get() < 0) return ErrnoStatus(errno, Path());
  return PlainFile::Take(std::move(fd), Path());
}

absl::Status GrowingFile::Append(std::string_view data) {
  while (!data.empty()) {
    const ssize_t count = ::write(fd_.get(), data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "write " + Path());
    data.remove_prefix(static_cast<size_t>(count));
    size_ += count;
  }
  return absl::OkStatus();
}

absl::Status GrowingFile::Reset() {
  if (::ftruncate(fd_.get(), 0) != 0) {
    return ErrnoStatus(errno, "truncate " + Path());
  }
  size_ = 0;
  return absl::OkStatus();
}

absl::Status GrowingFile::Commit() {
  if (::fsync(fd_.get()) != 0) return ErrnoStatus(errno, "fsync " + Path());
  if (!folder_.IsOnlyNameOf(temporary_, fd_.get())) {
    return absl::UnavailableError(
        Path() + " is another file than the one that was written");
  }
  RETURN_IF_ERROR(folder_.Rename(temporary_, name_));
  return folder_.Sync();
}

void GrowingFile::Discard() {
  if (folder_.IsOnlyNameOf(temporary_, fd_.get())) {
    folder_.Remove(temporary_).IgnoreError();
  }
}

}  // namespace comera::worker
