// Reads lines through zlib or from standard input, and can be woken by Stop.

#include "client/predict/line_source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "google/protobuf/stubs/common.h"

namespace comera::client {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 16;

}  // namespace

absl::StatusOr<std::unique_ptr<LineSource>> LineSource::Open(
    const std::string& path) {
  auto source = absl::WrapUnique(new LineSource);
  if (path == "-") {
    source->name_ = "standard input";
    return source;
  }
  source->name_ = path;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return ErrnoStatus(errno, path);
  struct stat status = {};
  if (fstat(file, &status) == 0 && S_ISDIR(status.st_mode)) {
    close(file);
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder"));
  }
  source->file_ = gzdopen(file, "rb");
  if (source->file_ == nullptr) {
    close(file);
    return absl::ResourceExhaustedError(absl::StrCat(path, ": no memory"));
  }
  return source;
}

LineSource::LineSource() : wake_(eventfd(0, EFD_CLOEXEC)) {}

LineSource::~LineSource() {
  if (wake_ >= 0) close(wake_);
  if (file_ != nullptr) gzclose(file_);
}

absl::Status LineSource::Error(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ":", line_number_, ": ", what));
}

void LineSource::Stop() {
  const uint64_t one = 1;
  // A failure cannot be handled: the reader just goes on waiting.
  if (write(wake_, &one, sizeof(one)) < 0) return;
}

bool LineSource::Await() const {
  // poll() ignores descriptors below 0.
  pollfd waits[] = {{STDIN_FILENO, POLLIN, 0}, {wake_, POLLIN, 0}};
  while (poll(waits, 2, -1) < 0 && errno == EINTR) {
  }
  return waits[1].revents == 0;
}

bool LineSource::MayWait() const {
  if (file_ != nullptr || buffer_.find('\n', at_) != std::string::npos) {
    return false;
  }
  pollfd wait = {STDIN_FILENO, POLLIN, 0};
  return poll(&wait, 1, 0) == 0;
}

absl::StatusOr<bool> LineSource::Fill() {
  buffer_.resize(kBufferBytes);
  at_ = 0;
  ssize_t got;
  if (file_ != nullptr) {
    got = gzread(file_, buffer_.data(), kBufferBytes);
    int error = Z_OK;
    const char* text = gzerror(file_, &error);
    if (got < 0 || (got == 0 && error == Z_BUF_ERROR)) {
      buffer_.clear();
      ++line_number_;
      return Error(absl::StrCat("damaged: ", text));
    }
  } else {
    if (!Await()) {
      buffer_.clear();
      return false;
    }
    do {
      got = read(STDIN_FILENO, buffer_.data(), kBufferBytes);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      buffer_.clear();
      return ErrnoStatus(errno, name_);
    }
  }
  buffer_.resize(static_cast<size_t>(got));
  return got > 0;
}

absl::StatusOr<bool> LineSource::Next(absl::string_view* line) {
  line_.clear();
  bool ended = false;
  while (!ended) {
    if (at_ == buffer_.size()) {
      ASSIGN_OR_RETURN(const bool more, Fill());
      if (!more) {
        if (line_.empty()) return false;
        break;
      }
    }
    const size_t end = buffer_.find('\n', at_);
    ended = end != std::string::npos;
    const size_t stop = ended ? end : buffer_.size();
    line_.append(buffer_, at_, stop - at_);
    at_ = ended ? stop + 1 : stop;
    if (line_.size() > kMaxLineBytes) {
      ++line_number_;
      return Error(absl::StrCat("longer than ", kMaxLineBytes, " bytes"));
    }
  }
  ++line_number_;
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  if (line_.find('\0') != std::string::npos) return Error("a NUL byte");
  if (!google::protobuf::internal::IsStructurallyValidUTF8(
          line_.data(), static_cast<int>(line_.size()))) {
    return Error("not UTF-8");
  }
  *line = line_;
  return true;
}

}  // namespace comera::client
