// Appends to a temporary file under a lock, and renames it when it is whole.

#include "worker/report/growing_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

// How often a file is opened anew that was moved or replaced meanwhile.
constexpr int kMaxTries = 8;

// Whether `name` still names the open file, which is a plain one without a
// second name.
bool IsOwn(const std::string& name, const struct stat& open_file) {
  struct stat named;
  return ::lstat(name.c_str(), &named) == 0 && S_ISREG(named.st_mode) &&
         named.st_nlink == 1 && named.st_dev == open_file.st_dev &&
         named.st_ino == open_file.st_ino;
}

}  // namespace

GrowingFile::GrowingFile(std::string path, std::string temporary, int fd,
                         int64_t size)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      fd_(fd),
      size_(size) {}

GrowingFile::GrowingFile(GrowingFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_) {}

GrowingFile::~GrowingFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<GrowingFile> GrowingFile::Open(std::string path,
                                              std::string temporary) {
  for (int i = 0; i < kMaxTries; ++i) {
    const int fd = ::open(
        temporary.c_str(),
        O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
        0644);
    if (fd < 0) {
      const int error = errno;
      // A link, a folder or a pipe without a reader.
      if (error != ELOOP && error != ENXIO) {
        return ErrnoStatus(error, "create " + temporary);
      }
      ::unlink(temporary.c_str());
      continue;
    }
    GrowingFile file(path, temporary, fd, 0);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      if (error == EWOULDBLOCK) {
        return absl::AbortedError(temporary + " is being written to");
      }
      // Some shared file systems have no locks. Two writers of one file are
      // rare, and a mixture of theirs fails its checksum.
      if (error != ENOSYS && error != ENOLCK && error != EOPNOTSUPP) {
        return ErrnoStatus(error, "lock " + temporary);
      }
    }
    struct stat info;
    if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, temporary);
    if (IsOwn(temporary, info)) {
      file.size_ = info.st_size;
      return file;
    }
    // Whoever had the lock before has moved it to its place, or it is a second
    // name of another file.
    if (!S_ISREG(info.st_mode) || info.st_nlink > 1) {
      ::unlink(temporary.c_str());
    }
  }
  return absl::UnavailableError(temporary + " is replaced again and again");
}

absl::Status GrowingFile::Append(std::string_view data) {
  while (!data.empty()) {
    const ssize_t count = ::write(fd_, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "write " + temporary_);
    data.remove_prefix(static_cast<size_t>(count));
    size_ += count;
  }
  return absl::OkStatus();
}

absl::Status GrowingFile::Reset() {
  if (::ftruncate(fd_, 0) != 0) {
    return ErrnoStatus(errno, "truncate " + temporary_);
  }
  size_ = 0;
  return absl::OkStatus();
}

absl::Status GrowingFile::Commit() {
  if (::fsync(fd_) != 0) return ErrnoStatus(errno, "fsync " + temporary_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, "rename to " + path_);
  }
  const size_t slash = path_.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + folder);
  const auto closer = absl::MakeCleanup([fd] { ::close(fd); });
  if (::fsync(fd) != 0) return ErrnoStatus(errno, "fsync " + folder);
  return absl::OkStatus();
}

void GrowingFile::Discard() { ::unlink(temporary_.c_str()); }

}  // namespace comera::worker
