// Touches a file at regular intervals.

#include "worker/gang/lease_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/files.h"
#include "common/log.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

// Members that an earlier daemon started may have a lease of few seconds.
constexpr absl::Duration kLongestInterval = absl::Seconds(1);

// Sets the file's times to now; makes it if it is not there.
absl::Status Touch(const std::string& path) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return ErrnoStatus(errno, "open " + path);
  const bool touched = futimens(fd, nullptr) == 0;
  const int error = errno;
  close(fd);
  return touched ? absl::OkStatus() : ErrnoStatus(error, "touch " + path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LeaseFile>> LeaseFile::Start(
    const std::string& path, absl::Duration lease) {
  RETURN_IF_ERROR(Touch(path));
  return std::unique_ptr<LeaseFile>(
      new LeaseFile(path, std::min(lease / 10, kLongestInterval)));
}

LeaseFile::LeaseFile(std::string path, absl::Duration interval)
    : path_(std::move(path)), interval_(interval) {
  thread_ = std::thread([this] { Loop(); });
}

LeaseFile::~LeaseFile() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void LeaseFile::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ended_.wait_for(
      lock, absl::ToChronoNanoseconds(interval_),
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_; })) {
    const absl::Status touched = Touch(path_);
    LOG_IF(ERROR, !touched.ok()) << "lease not renewed " << touched;
  }
}

}  // namespace comera::worker
