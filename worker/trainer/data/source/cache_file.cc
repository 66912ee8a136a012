// Stores prepared data in a file that later openings reuse.
#include "worker/trainer/data/source/cache_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"

namespace comera::trainer {
namespace {

// A file is this line, the SHA-256 of the rest in hexadecimal, and the rest.
constexpr absl::string_view kMagic = "comera data cache 1\n";
constexpr size_t kDigestBytes = 64;
constexpr int64_t kMaxFileBytes = int64_t{16} << 30;
constexpr absl::Duration kLockPoll = absl::Milliseconds(100);

absl::StatusOr<std::string> ReadCacheFile(const std::string& path) {
  ASSIGN_OR_RETURN(std::string bytes, ReadLimited(path, kMaxFileBytes));
  const absl::string_view view = bytes;
  const size_t header = kMagic.size() + kDigestBytes;
  if (view.size() < header || view.substr(0, kMagic.size()) != kMagic ||
      view.substr(kMagic.size(), kDigestBytes) !=
          Sha256Hex(std::string_view(bytes).substr(header))) {
    return absl::DataLossError("damaged");
  }
  bytes.erase(0, header);
  return bytes;
}

}  // namespace

absl::Status FileCache::GetOrBuild(
    absl::string_view kind, absl::string_view key,
    const std::function<absl::StatusOr<std::string>()>& build,
    const std::function<absl::Status(absl::string_view)>& accept) {
  if (directory_.empty()) {
    ASSIGN_OR_RETURN(const std::string bytes, build());
    return accept(bytes);
  }
  const std::string path = PathOf(kind, key);
  bool damaged = false;
  const auto try_cached = [&]() {
    const absl::StatusOr<std::string> bytes = ReadCacheFile(path);
    absl::Status status = bytes.ok() ? accept(*bytes) : bytes.status();
    if (!status.ok() && !absl::IsNotFound(status)) {
      damaged = true;
      Report(absl::StrCat("cached ", kind,
                          " is not usable, built again: ", status.message()));
    }
    return status.ok();
  };
  if (try_cached()) return absl::OkStatus();

  bool waited = false;
  const absl::StatusOr<int> lock =
      Lock(kind, path, /*must_lock=*/false, &waited);
  if (!lock.ok()) {
    Report(absl::StrCat("the cache folder cannot be used: ",
                        lock.status().ToString()));
    ASSIGN_OR_RETURN(const std::string bytes, build());
    return accept(bytes);
  }
  // Closing releases the lock, and so does the end of the process.
  const auto closer = absl::MakeCleanup([&lock] { close(*lock); });
  // Another process may have built it before this one had the lock.
  if ((waited || !damaged) && try_cached()) return absl::OkStatus();
  return Build(path, build, accept);
}

absl::Status FileCache::GetOrBuildFolder(
    absl::string_view kind, absl::string_view key,
    const std::function<absl::Status(const std::string&)>& build,
    const std::function<absl::Status(const std::string&)>& accept) {
  if (!is_on()) return absl::FailedPreconditionError("caching is off");
  const std::string path = PathOf(kind, key);
  bool waited = false;
  ASSIGN_OR_RETURN(const int lock,
                   Lock(kind, path, /*must_lock=*/true, &waited));
  const auto closer = absl::MakeCleanup([lock] { close(lock); });
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    const absl::Status accepted = accept(path);
    // What is there may be whole: files that cannot be opened now are kept.
    if (!absl::IsDataLoss(accepted) && !absl::IsNotFound(accepted)) {
      return accepted;
    }
    Report(absl::StrCat("cached ", kind,
                        " is not usable, built again: ", accepted.message()));
    std::filesystem::remove_all(path, error);
  }
  // The lock's owner is the only one to write here; what a killed one left is
  // of no use.
  const std::string unfinished = path + ".tmp";
  std::filesystem::remove_all(unfinished, error);
  RETURN_IF_ERROR(MakeDirectories(unfinished));
  if (const absl::Status built = build(unfinished); !built.ok()) {
    std::filesystem::remove_all(unfinished, error);
    return built;
  }
  if (rename(unfinished.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, "rename to " + path);
  }
  return accept(path);
}

std::string FileCache::PathOf(absl::string_view kind,
                              absl::string_view key) const {
  return absl::StrCat(directory_, "/", kind, "-",
                      Sha256Hex({key.data(), key.size()}).substr(0, 32));
}

absl::StatusOr<int> FileCache::Lock(absl::string_view kind,
                                    const std::string& path, bool must_lock,
                                    bool* waited) {
  RETURN_IF_ERROR(MakeDirectories(directory_));
  const int lock = open((path + ".lock").c_str(),
                        O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (lock < 0) return absl::ErrnoToStatus(errno, "lock");
  int64_t polls = 0;
  while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      if (!must_lock) break;
      const int why = errno;
      close(lock);
      return ErrnoStatus(why, "flock " + path + ".lock");
    }
    *waited = true;
    // The text changes: a member that waits here for long does not hang, and
    // the one that builds is watched itself.
    Report(absl::StrCat("waiting for another process to build the ", kind, ", ",
                        10 * (polls++ / 100), " s"));
    absl::SleepFor(kLockPoll);
  }
  return lock;
}

absl::Status FileCache::Build(
    const std::string& path,
    const std::function<absl::StatusOr<std::string>()>& build,
    const std::function<absl::Status(absl::string_view)>& accept) {
  ASSIGN_OR_RETURN(const std::string bytes, build());
  RETURN_IF_ERROR(accept(bytes));
  const absl::Status written =
      WriteFileAtomically(path, absl::StrCat(kMagic, Sha256Hex(bytes), bytes));
  if (!written.ok()) {
    Report(absl::StrCat("cannot be cached: ", written.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
