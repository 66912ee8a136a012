// A rendezvous whose keys are the files of a folder.
#include "worker/collective/rendezvous.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::collective {
namespace {

bool IsPlain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '-';
}

std::string Encode(std::string_view key) {
  std::string name;
  for (char c : key) {
    if (IsPlain(c)) {
      name.push_back(c);
    } else {
      absl::StrAppendFormat(&name, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return name;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The key whose file has this name, if it is one that Encode makes.
std::optional<std::string> Decode(std::string_view name) {
  std::string key;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      key.push_back(name[i]);
      continue;
    }
    if (i + 2 >= name.size()) return std::nullopt;
    const int high = HexDigit(name[i + 1]);
    const int low = HexDigit(name[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    key.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  if (key.empty() || Encode(key) != name) return std::nullopt;
  return key;
}

absl::Status CheckKey(std::string_view key) {
  if (key.empty() || key.size() > Rendezvous::kMaxKeyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous key of ", key.size(), " bytes; 1 to ",
                     Rendezvous::kMaxKeyBytes, " are allowed"));
  }
  return absl::OkStatus();
}

// The folder keeps others out, so the file may be read by all: a member that
// runs as another user than its worker has to read what the worker delivers,
// whatever the worker's umask.
absl::Status WriteNewFile(const std::string& path, std::string_view contents) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  if (fchmod(fd, 0644) != 0) {
    const absl::Status status =
        ErrnoStatus(errno, absl::StrCat("chmod ", path));
    close(fd);
    unlink(path.c_str());
    return status;
  }
  while (!contents.empty()) {
    const ssize_t n = write(fd, contents.data(), contents.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const absl::Status status =
          ErrnoStatus(errno, absl::StrCat("write ", path));
      close(fd);
      unlink(path.c_str());
      return status;
    }
    contents.remove_prefix(n);
  }
  close(fd);
  return absl::OkStatus();
}

// Reads an entry. Whoever shares the folder may have put anything in its place,
// so no link is followed, nothing but a plain file is read, and no more than a
// value may have.
absl::StatusOr<std::string> ReadEntry(const std::string& path) {
  const int fd =
      open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  struct stat found = {};
  if (fstat(fd, &found) != 0) {
    return ErrnoStatus(errno, absl::StrCat("stat ", path));
  }
  if (!S_ISREG(found.st_mode) ||
      found.st_size > static_cast<off_t>(Rendezvous::kMaxValueBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is no entry"));
  }
  std::string value(static_cast<size_t>(found.st_size), '\0');
  size_t done = 0;
  while (done < value.size()) {
    const ssize_t n = read(fd, value.data() + done, value.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  value.resize(done);
  return value;
}

}  // namespace

absl::StatusOr<FileRendezvous> FileRendezvous::Open(const std::string& folder) {
  RETURN_IF_ERROR(MakeDirectories(folder));
  struct stat found = {};
  if (stat(folder.c_str(), &found) != 0) {
    return ErrnoStatus(errno, absl::StrCat("stat ", folder));
  }
  // The entries are for the gang's members alone: one of them is its key.
  if (found.st_uid == geteuid() && (found.st_mode & 0777) != 0700 &&
      chmod(folder.c_str(), 0700) != 0) {
    return ErrnoStatus(errno, absl::StrCat("chmod ", folder));
  }
  return FileRendezvous(folder);
}

std::string FileRendezvous::PathOf(std::string_view key) const {
  return absl::StrCat(folder_, "/", Encode(key));
}

absl::Status FileRendezvous::Set(std::string_view key, std::string_view value) {
  RETURN_IF_ERROR(CheckKey(key));
  if (value.size() > kMaxValueBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous value of ", value.size(), " bytes; at most ",
                     kMaxValueBytes, " are allowed"));
  }
  static std::atomic<int64_t> counter{0};
  // A leading dot, which Encode never makes, keeps it out of Keys().
  const std::string temporary =
      absl::StrCat(folder_, "/.tmp-", getpid(), "-", counter.fetch_add(1));
  const std::string path = PathOf(key);
  RETURN_IF_ERROR(WriteNewFile(temporary, value));
  // Unlike rename, link never replaces what is there.
  const int error = link(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  unlink(temporary.c_str());
  if (error == 0) return absl::OkStatus();
  if (error != EEXIST) return ErrnoStatus(error, absl::StrCat("link ", path));
  ASSIGN_OR_RETURN(const std::string old, ReadEntry(path));
  if (old == value) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "rendezvous key \"", std::string(key), "\" holds another value"));
}

absl::StatusOr<std::string> FileRendezvous::Get(std::string_view key,
                                                absl::Duration timeout) {
  RETURN_IF_ERROR(CheckKey(key));
  const std::string path = PathOf(key);
  const absl::Time deadline = absl::Now() + timeout;
  absl::Duration pause = absl::Milliseconds(1);
  while (true) {
    absl::StatusOr<std::string> value = ReadEntry(path);
    if (value.ok() || !absl::IsNotFound(value.status())) return value;
    const absl::Time now = absl::Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "rendezvous key \"", std::string(key), "\" was not written within ",
          absl::FormatDuration(timeout)));
    }
    absl::SleepFor(std::min(pause, deadline - now));
    pause = std::min(pause * 2, absl::Milliseconds(20));
  }
}

absl::StatusOr<std::vector<std::string>> FileRendezvous::Keys() const {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(folder_.c_str()),
                                                   closedir);
  if (folder == nullptr) {
    return ErrnoStatus(errno, absl::StrCat("opendir ", folder_));
  }
  std::vector<std::string> keys;
  for (int i = 0; i < kMaxFiles; ++i) {
    const dirent* entry = readdir(folder.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] == '.') continue;
    if (auto key = Decode(entry->d_name)) keys.push_back(*std::move(key));
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace comera::collective
