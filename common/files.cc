// Reads files, and writes them through a temporary file, fsync and rename.

#include "common/files.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera {
namespace {

// Closes its descriptor at the end of the scope.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status WriteAndSync(const std::string& path, std::string_view contents,
                          int mode) {
  FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (file.get() < 0) return ErrnoStatus(errno, "create " + path);
  while (!contents.empty()) {
    const ssize_t n = ::write(file.get(), contents.data(), contents.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "write " + path);
    contents.remove_prefix(n);
  }
  if (::fsync(file.get()) != 0) return ErrnoStatus(errno, "fsync " + path);
  return absl::OkStatus();
}

}  // namespace

absl::Status ErrnoStatus(int error, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return ErrnoStatus(errno, "open " + path);
  std::string contents;
  struct stat info;
  if (::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode)) {
    contents.reserve(info.st_size);
  }
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = ::read(file.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "read " + path);
    if (n == 0) return contents;
    contents.append(buffer, n);
  }
}

absl::Status WriteFileAtomically(const std::string& path,
                                 std::string_view contents, int mode) {
  static std::atomic<int> counter{0};
  const std::string temporary =
      absl::StrCat(path, ".tmp.", ::getpid(), ".", counter.fetch_add(1));
  absl::Status status = WriteAndSync(temporary, contents, mode);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, "rename to " + path);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  FileDescriptor folder(
      ::open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || ::fsync(folder.get()) != 0) {
    return ErrnoStatus(errno, "fsync folder of " + path);
  }
  return absl::OkStatus();
}

absl::Status MakeDirectories(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("empty folder name");
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, "mkdir " + part);
    }
    if (end == std::string::npos) break;
  }
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return absl::NotFoundError(absl::StrCat(path, " is not a folder"));
  }
  return absl::OkStatus();
}

absl::Status CheckOwnFolder(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  // Root can open every folder anyway; volumes of containers are often root's.
  if (info.st_uid == ::geteuid() || info.st_uid == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, " belongs to user ", info.st_uid,
      ", who could read and replace "
      "all that is put there, and not to user ",
      ::geteuid(),
      ", as whom this program runs: name another folder, or change its owner "
      "with `chown -R ",
      ::geteuid(), " ", path, "`"));
}

std::string Sha256Hex(std::string_view contents) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(contents.data()),
         contents.size(), digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

}  // namespace comera
