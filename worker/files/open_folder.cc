// Opens folders without following links, and works in them by descriptor.

#include "worker/files/open_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/files/open_beneath.h"

namespace comera::worker {
namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

absl::Status Failed(int error, const std::string& what) {
  if (error == ELOOP) {
    return absl::FailedPreconditionError(
        what + ": a part of its name is a link, where none may be");
  }
  if (error == ENOTDIR) {
    return absl::FailedPreconditionError(
        what + ": a part of its name is no folder, where one was expected");
  }
  return ErrnoStatus(error, what);
}

}  // namespace

absl::StatusOr<OpenFolder> OpenFolder::Open(const PathBelow& folder) {
  Descriptor root(::open(folder.root.c_str(), kFolder));
  if (root.get() < 0) return Failed(errno, "open " + folder.root);
  if (folder.below.empty()) return OpenFolder(folder, std::move(root));
  Descriptor fd(OpenBeneath(root.get(), folder.below, kFolder));
  if (fd.get() < 0) return Failed(errno, "open " + folder.ToString());
  return OpenFolder(folder, std::move(fd));
}

absl::StatusOr<OpenFolder> OpenFolder::Make(const PathBelow& folder) {
  RETURN_IF_ERROR(MakeDirectories(folder.root));
  ASSIGN_OR_RETURN(OpenFolder at, Open({folder.root, ""}));
  for (const absl::string_view part :
       absl::StrSplit(folder.below, '/', absl::SkipEmpty())) {
    const std::string name(part);
    RETURN_IF_ERROR(at.CheckName(name));
    if (::mkdirat(at.fd(), name.c_str(), 0755) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, "mkdir " + at.PathOf(name));
    }
    ASSIGN_OR_RETURN(OpenFolder next, at.Child(name));
    at = std::move(next);
  }
  return at;
}

absl::StatusOr<OpenFolder> OpenFolder::Child(const std::string& name) const {
  ASSIGN_OR_RETURN(Descriptor fd, OpenFile(name, kFolder));
  return OpenFolder(path_.Child(name), std::move(fd));
}

absl::Status OpenFolder::CheckName(const std::string& name) const {
  if (name.empty() || name == "." || name == ".." ||
      name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        path_.ToString() +
        ": a name of one part was expected for a file in it");
  }
  return absl::OkStatus();
}

absl::StatusOr<Descriptor> OpenFolder::OpenFile(const std::string& name,
                                                int flags, mode_t mode) const {
  RETURN_IF_ERROR(CheckName(name));
  Descriptor fd(OpenBeneath(fd_.get(), name, flags, mode));
  if (fd.get() < 0) return Failed(errno, "open " + PathOf(name));
  return fd;
}

absl::Status OpenFolder::MakeFile(const std::string& name) const {
  RETURN_IF_ERROR(CheckName(name));
  const Descriptor fd(OpenBeneath(
      fd_.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NONBLOCK, 0644));
  if (fd.get() >= 0 || errno == EEXIST) return absl::OkStatus();
  return Failed(errno, "create " + PathOf(name));
}

absl::StatusOr<std::vector<std::string>> OpenFolder::List() const {
  // A descriptor of its own, because reading moves it.
  Descriptor fd(::openat(fd_.get(), ".", kFolder));
  if (fd.get() < 0) return Failed(errno, "list " + path_.ToString());
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::fdopendir(fd.get()),
                                                   ::closedir);
  if (folder == nullptr) return Failed(errno, "list " + path_.ToString());
  fd.Release();
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return Failed(errno, "list " + path_.ToString());
  return names;
}

std::optional<int64_t> OpenFolder::SizeOf(const std::string& name) const {
  struct stat info = {};
  if (!CheckName(name).ok() ||
      ::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISREG(info.st_mode)) {
    return std::nullopt;
  }
  return info.st_size;
}

bool OpenFolder::IsOnlyNameOf(const std::string& name, int fd) const {
  struct stat named = {}, open = {};
  return CheckName(name).ok() && ::fstat(fd, &open) == 0 &&
         ::fstatat(fd_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         named.st_nlink == 1 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

absl::Status OpenFolder::Rename(const std::string& from,
                                const std::string& to) const {
  RETURN_IF_ERROR(CheckName(from));
  RETURN_IF_ERROR(CheckName(to));
  if (::renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()) != 0) {
    return Failed(errno, "rename to " + PathOf(to));
  }
  return absl::OkStatus();
}

absl::Status OpenFolder::Remove(const std::string& name) const {
  RETURN_IF_ERROR(CheckName(name));
  if (::unlinkat(fd_.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
    return Failed(errno, "remove " + PathOf(name));
  }
  return absl::OkStatus();
}

absl::Status OpenFolder::Sync() const {
  if (::fsync(fd_.get()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "fsync " + path_.ToString());
}

}  // namespace comera::worker
