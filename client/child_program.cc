// Runs a program, exchanges lines with it and tells how it ended.

#include "client/child_program.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "client/child_process.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::client {

absl::StatusOr<std::unique_ptr<ChildProgram>> ChildProgram::Start(
    const std::vector<std::string>& command, const Options& options) {
  auto program = absl::WrapUnique(new ChildProgram(options));
  program->errors_ = memfd_create("errors", MFD_CLOEXEC);
  if (program->errors_ < 0) return ErrnoStatus(errno, "memfd_create");
  int ends[2];
  // A socket, so that writing to a child that has ended raises no signal.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "socketpair");
  }
  program->stream_ = ends[0];
  const auto closer = absl::MakeCleanup([&] { close(ends[1]); });
  ChildSettings settings;
  settings.output = ends[1];
  settings.errors = program->errors_;
  settings.parent_signal = options.parent_signal;
  if (options.input == Input::kSent) settings.input = ends[1];
  if (options.input == Input::kInherited) {
    settings.input = STDIN_FILENO;
    settings.own_group = false;
  }
  ASSIGN_OR_RETURN(program->pid_, StartProcess(command, settings));
  return program;
}

ChildProgram::~ChildProgram() {
  Stop(/*at_once=*/true);
  if (stream_ >= 0) close(stream_);
  if (errors_ >= 0) close(errors_);
  while (pid_ > 0 && waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ChildProgram::Stop(bool at_once) {
  // It is reaped by the destructor only, so the number is still the child's.
  if (pid_ > 0) kill(pid_, at_once ? SIGKILL : SIGTERM);
}

absl::StatusOr<ChildProgram::End> ChildProgram::WaitForEnd() {
  siginfo_t info = {};
  // Leaves the child to be reaped by the destructor.
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) !=
         0) {
    if (errno != EINTR) return ErrnoStatus(errno, "waitid");
  }
  return End{info.si_code != CLD_EXITED, info.si_status};
}

std::string ChildProgram::Errors(size_t most) const {
  const off_t size = lseek(errors_, 0, SEEK_END);
  const off_t from = std::max<off_t>(size - static_cast<off_t>(most), 0);
  std::string said(static_cast<size_t>(std::max<off_t>(size - from, 0)), '\0');
  const ssize_t got = pread(errors_, said.data(), said.size(), from);
  said.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  absl::StripAsciiWhitespace(&said);
  return said;
}

bool ChildProgram::Send(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t put = send(stream_, text.data(), text.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

absl::StatusOr<std::optional<std::string>> ChildProgram::NextLine() {
  size_t searched = 0;
  while (true) {
    const size_t end = received_.find('\n', searched);
    if (end != std::string::npos) {
      std::optional<std::string> line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    searched = received_.size();
    if (searched > options_.longest_line) {
      return absl::ResourceExhaustedError("the program says too much");
    }
    char buffer[1 << 16];
    const ssize_t got = read(stream_, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::optional<std::string>();
    received_.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace comera::client
