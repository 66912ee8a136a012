// Starts a model process and exchanges lines with it under deadlines.

#include "worker/predict/model_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

constexpr size_t kMaxLine = size_t{64} << 20;
constexpr size_t kKeptErrors = 2000;
constexpr absl::Duration kLookInterval = absl::Milliseconds(200);

}  // namespace

absl::StatusOr<std::unique_ptr<ModelChild>> ModelChild::Start(
    const std::vector<std::string>& command,
    const std::vector<std::string>& environment,
    const ChildConfinement& confinement, const std::atomic<bool>* stopped) {
  auto child = absl::WrapUnique(new ModelChild);
  child->stopped_ = stopped;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "socketpair");
  }
  child->input_ = ends[1];
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  ChildConfinement own = confinement;
  own.standard_input = ends[0];
  absl::StatusOr<ChildProcess> started = StartChild(command, environment, own);
  close(ends[0]);
  RETURN_IF_ERROR(started.status());
  child->child_ = *started;
  return child;
}

ModelChild::~ModelChild() {
  if (input_ >= 0) close(input_);
  if (child_.pidfd < 0) return;
  Kill();
  while (waitid(static_cast<idtype_t>(P_PIDFD), child_.pidfd, nullptr,
                WEXITED) < 0 &&
         errno == EINTR) {
  }
  close(child_.pidfd);
  close(child_.out);
  close(child_.err);
}

void ModelChild::Kill() {
  // Signals by descriptor: the search for strays may have reaped it, and its
  // number may belong to another process.
  syscall(SYS_pidfd_send_signal, child_.pidfd, SIGKILL, nullptr, 0);
}

bool ModelChild::DrainStderr() {
  const std::lock_guard<std::mutex> lock(mutex_);
  char buffer[4096];
  ssize_t got;
  while ((got = read(child_.err, buffer, sizeof(buffer))) > 0) {
    errors_.append(buffer, static_cast<size_t>(got));
  }
  const bool open = got < 0 && (errno == EAGAIN || errno == EINTR);
  if (errors_.size() > kKeptErrors) {
    errors_.erase(0, errors_.size() - kKeptErrors);
  }
  return open;
}

absl::Status ModelChild::End() {
  DrainStderr();
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::string_view said = absl::StripAsciiWhitespace(errors_);
  absl::ConsumePrefix(&said, "comera-trainer: ");
  return absl::FailedPreconditionError(
      said.empty() ? "the model's program ended" : std::string(said));
}

absl::Status ModelChild::Await(int fd, short events, absl::Time deadline,
                               const std::function<bool()>& gone) {
  bool listens = true;
  while (true) {
    if (stopped_ != nullptr && *stopped_) {
      return absl::CancelledError("the worker ends");
    }
    if (gone != nullptr && gone()) {
      return absl::CancelledError("nobody waits for the model");
    }
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("the model does not answer in time");
    }
    // Descriptors below 0 are ignored. The process's own end counts, because a
    // process that it started may hold the streams open.
    pollfd waits[] = {{fd, events, 0},
                      {listens ? child_.err : -1, POLLIN, 0},
                      {child_.pidfd, POLLIN, 0}};
    const int64_t wait =
        absl::ToInt64Milliseconds(std::min(left, kLookInterval)) + 1;
    const int ready = poll(waits, 3, static_cast<int>(wait));
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
    if (ready <= 0) continue;
    if (waits[1].revents != 0) listens = DrainStderr();
    if (waits[0].revents != 0) return absl::OkStatus();
    if (waits[2].revents != 0) return End();
  }
}

absl::Status ModelChild::Send(const std::string& line, absl::Time deadline) {
  absl::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t put = send(input_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (put > 0) {
      rest.remove_prefix(static_cast<size_t>(put));
    } else if (put < 0 && errno == EAGAIN) {
      RETURN_IF_ERROR(Await(input_, POLLOUT, deadline, nullptr));
    } else if (put < 0 && errno != EINTR) {
      return End();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ModelChild::Receive(
    absl::Time deadline, const std::function<bool()>& gone) {
  size_t searched = 0;
  while (true) {
    const size_t end = received_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    searched = received_.size();
    if (searched > kMaxLine) {
      return absl::ResourceExhaustedError("the model says too much");
    }
    char buffer[1 << 16];
    const ssize_t got = read(child_.out, buffer, sizeof(buffer));
    if (got > 0) {
      received_.append(buffer, static_cast<size_t>(got));
    } else if (got < 0 && errno == EAGAIN) {
      RETURN_IF_ERROR(Await(child_.out, POLLIN, deadline, gone));
    } else if (got == 0 || errno != EINTR) {
      return End();
    }
  }
}

}  // namespace comera::worker
