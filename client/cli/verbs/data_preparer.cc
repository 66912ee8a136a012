// Runs a trainer that prepares data and reads the lines that it writes.
#include "client/cli/verbs/data_preparer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

constexpr size_t kMaxLine = 1 << 20;
constexpr off_t kErrorTail = 4000;
// Variables with this prefix are meant for a coordinator, tokens among them,
// and must not reach the child.
constexpr char kOwn[] = "COMERA_";

// Runs in the child: only async-signal-safe calls. Returns errno if exec
// failed.
int Become(char* const* argv, char* const* environment, int output, int errors,
           bool standard_input, pid_t parent) {
  // This side handles Ctrl-C in the terminal.
  if (!standard_input) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // The parent may have died before prctl.
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input =
      standard_input ? STDIN_FILENO : open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input < 0 || (!standard_input && dup2(input, STDIN_FILENO) < 0) ||
      dup2(output, STDOUT_FILENO) < 0 || dup2(errors, STDERR_FILENO) < 0) {
    return errno;
  }
  execve(argv[0], argv, environment);
  return errno;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataPreparer>> DataPreparer::Start(
    const std::vector<std::string>& command, bool standard_input) {
  auto preparer = absl::WrapUnique(new DataPreparer);
  RETURN_IF_ERROR(preparer->Launch(command, standard_input));
  return preparer;
}

absl::Status DataPreparer::Launch(const std::vector<std::string>& command,
                                  bool standard_input) {
  errors_ = memfd_create("errors", MFD_CLOEXEC);
  if (errors_ < 0) return ErrnoStatus(errno, "memfd_create");
  int ends[2], failure[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  output_ = ends[0];
  // Carries the errno of a failed exec; a successful exec closes it.
  if (pipe2(failure, O_CLOEXEC) != 0) {
    const int error = errno;
    close(ends[1]);
    return ErrnoStatus(error, "pipe");
  }
  std::vector<char*> argv, environment;
  for (const std::string& argument : command) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (strncmp(*entry, kOwn, sizeof(kOwn) - 1) != 0) {
      environment.push_back(*entry);
    }
  }
  environment.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    const int error = Become(argv.data(), environment.data(), ends[1], errors_,
                             standard_input, parent);
    if (write(failure[1], &error, sizeof(error)) < 0) _exit(126);
    _exit(127);
  }
  const int fork_error = errno;
  pid_ = pid;
  close(ends[1]);
  close(failure[1]);
  int error = 0;
  ssize_t got = 0;
  while (pid > 0 && (got = read(failure[0], &error, sizeof(error))) < 0 &&
         errno == EINTR) {
  }
  close(failure[0]);
  if (pid < 0) return ErrnoStatus(fork_error, "fork");
  if (got == sizeof(error)) return ErrnoStatus(error, command[0]);
  return absl::OkStatus();
}

DataPreparer::~DataPreparer() {
  Stop(/*at_once=*/true);
  if (output_ >= 0) close(output_);
  if (errors_ >= 0) close(errors_);
  const pid_t pid = pid_;
  while (pid > 0 && waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void DataPreparer::Stop(bool at_once) {
  // It is reaped by the destructor only, so the number is still the child's.
  const pid_t pid = pid_;
  if (pid > 0) kill(pid, at_once ? SIGKILL : SIGTERM);
}

absl::Status DataPreparer::EndOfProgram() {
  siginfo_t info = {};
  // Leaves the child to be reaped by the destructor.
  while (waitid(P_PID, static_cast<id_t>(pid_.load()), &info,
                WEXITED | WNOWAIT) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "waitid");
  }
  if (info.si_code == CLD_EXITED && info.si_status == 0) {
    return absl::OkStatus();
  }
  const off_t size = lseek(errors_, 0, SEEK_END);
  const off_t from = size > kErrorTail ? size - kErrorTail : 0;
  std::string said(static_cast<size_t>(size - from), '\0');
  const ssize_t got = pread(errors_, said.data(), said.size(), from);
  said.resize(got < 0 ? 0 : static_cast<size_t>(got));
  // Log lines come before the error.
  absl::string_view text = absl::StripAsciiWhitespace(said);
  const size_t line = text.rfind('\n');
  if (line != absl::string_view::npos) text.remove_prefix(line + 1);
  absl::ConsumePrefix(&text, "comera-trainer: ");
  if (!text.empty()) return absl::FailedPreconditionError(text);
  return absl::FailedPreconditionError(
      info.si_code == CLD_EXITED
          ? absl::StrCat("comera-trainer ended with status ", info.si_status)
          : absl::StrCat("comera-trainer was ended by signal ",
                         info.si_status));
}

absl::StatusOr<std::optional<std::string>> DataPreparer::NextLine() {
  while (true) {
    const size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::optional<std::string> line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() > kMaxLine) {
      return absl::ResourceExhaustedError("comera-trainer says too much");
    }
    char buffer[1 << 12];
    const ssize_t got = read(output_, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      RETURN_IF_ERROR(EndOfProgram());
      return std::optional<std::string>();
    }
    received_.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace comera::client
