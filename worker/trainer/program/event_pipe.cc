// Reads lines from a named pipe.
#include "worker/trainer/program/event_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "common/files.h"

namespace comera::trainer {
namespace {

constexpr size_t kMaxLineBytes = size_t{1} << 20;
constexpr size_t kReadBytes = size_t{64} << 10;

}  // namespace

absl::StatusOr<EventPipe> EventPipe::Make(const std::string& path) {
  if (mkfifo(path.c_str(), 0600) != 0) return ErrnoStatus(errno, path);
  // With a writer of its own, it does not end when the program closes it.
  const int fd = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, path);
  return EventPipe(fd);
}

EventPipe::EventPipe(EventPipe&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      line_(std::move(other.line_)),
      cut_(other.cut_) {}

EventPipe::~EventPipe() {
  if (fd_ >= 0) close(fd_);
}

void EventPipe::ReadLines(
    const std::function<void(std::string_view line)>& on_line) {
  std::string buffer(kReadBytes, '\0');
  while (true) {
    const ssize_t count = read(fd_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    std::string_view text(buffer.data(), static_cast<size_t>(count));
    while (!text.empty()) {
      const size_t end = text.find('\n');
      const std::string_view part = text.substr(0, end);
      cut_ = cut_ || line_.size() + part.size() > kMaxLineBytes;
      if (!cut_) line_.append(part);
      if (end == std::string_view::npos) break;
      if (!cut_) on_line(line_);
      line_.clear();
      cut_ = false;
      text.remove_prefix(end + 1);
    }
  }
}

}  // namespace comera::trainer
