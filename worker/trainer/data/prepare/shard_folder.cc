// Locks the folder of a preparation and removes what is out of date in it.
#include "worker/trainer/data/prepare/shard_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/prepare/prepare_state.h"
#include "worker/trainer/data/shards/shard_index.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

namespace fs = std::filesystem;

absl::Status Remove(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "remove " + path);
}

// The number in a name that ShardFileName gives, or -1.
int64_t ShardNumber(absl::string_view name) {
  int64_t number = 0;
  absl::string_view digits = name;
  if (!absl::ConsumePrefix(&digits, "shard-") ||
      !absl::ConsumeSuffix(&digits, ".tokens") ||
      !absl::SimpleAtoi(digits, &number) || ShardFileName(number) != name) {
    return -1;
  }
  return number;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardFolder>> ShardFolder::Lock(
    const std::string& path) {
  RETURN_IF_ERROR(MakeDirectories(path));
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, PrintablePath(path));
  auto folder = absl::WrapUnique(new ShardFolder(path, fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, PrintablePath(path));
    return absl::FailedPreconditionError(
        absl::StrCat(PrintablePath(path), ": another process prepares it"));
  }
  return folder;
}

ShardFolder::~ShardFolder() { close(fd_); }

bool ShardFolder::IsEmpty() const {
  std::error_code error;
  return fs::is_empty(path_, error);
}

absl::Status ShardFolder::RemoveShardsFrom(size_t from) const {
  std::error_code error;
  fs::directory_iterator entries(path_, error);
  if (error) return ErrnoStatus(error.value(), PrintablePath(path_));
  for (; entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    absl::string_view whole = name;
    const bool unfinished = absl::ConsumeSuffix(&whole, ".tmp");
    const int64_t number = ShardNumber(whole);
    if (number < 0) continue;
    if (unfinished || static_cast<size_t>(number) >= from) {
      RETURN_IF_ERROR(Remove(absl::StrCat(path_, "/", name)));
    }
  }
  if (error) return ErrnoStatus(error.value(), PrintablePath(path_));
  return absl::OkStatus();
}

absl::Status ShardFolder::RemoveState() const {
  return Remove(absl::StrCat(path_, "/", kPrepareStateFile));
}

absl::Status ShardFolder::RemoveIndex() const {
  return Remove(absl::StrCat(path_, "/", kShardIndexFile));
}

}  // namespace comera::trainer
