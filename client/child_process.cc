// Forks and executes programs and tells how they end.

#include "client/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace comera::client {
namespace {

// Variables with this prefix are meant for a coordinator, tokens among them,
// and must not reach the child, which may be a private one.
constexpr char kOwn[] = "COMERA_";

// Runs in the child: only async-signal-safe calls. Returns errno if exec
// failed.
int Become(char* const* argv, char* const* environment,
           const ChildSettings& settings, pid_t parent) {
  if (settings.own_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, settings.parent_signal);
  // The parent may have died before prctl.
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = settings.input >= 0
                        ? settings.input
                        : open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input < 0 || dup2(input, STDIN_FILENO) < 0 ||
      dup2(settings.output, STDOUT_FILENO) < 0 ||
      dup2(settings.errors, STDERR_FILENO) < 0) {
    return errno;
  }
  execve(argv[0], argv, environment);
  return errno;
}

}  // namespace

absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& arguments,
                                   const ChildSettings& settings) {
  // Carries the errno of a failed exec; a successful exec closes it.
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (strncmp(*entry, kOwn, sizeof(kOwn) - 1) != 0) {
      environment.push_back(*entry);
    }
  }
  environment.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    const int error = Become(argv.data(), environment.data(), settings, parent);
    if (write(failure[1], &error, sizeof(error)) < 0) _exit(126);
    _exit(127);
  }
  const int fork_error = errno;
  close(failure[1]);
  int error = 0;
  ssize_t got = 0;
  while (pid > 0 && (got = read(failure[0], &error, sizeof(error))) < 0 &&
         errno == EINTR) {
  }
  close(failure[0]);
  if (pid < 0) return ErrnoStatus(fork_error, "fork");
  if (got == sizeof(error)) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return ErrnoStatus(error, arguments[0]);
  }
  return pid;
}

absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& arguments,
                                   const std::string& log_path) {
  ChildSettings settings;
  settings.output = settings.errors =
      open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (settings.output < 0) return ErrnoStatus(errno, log_path);
  absl::StatusOr<pid_t> pid = StartProcess(arguments, settings);
  close(settings.output);
  return pid;
}

std::optional<std::string> EndOfProcess(pid_t pid) {
  int status = 0;
  const pid_t got = waitpid(pid, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return std::nullopt;
  if (got < 0) return "gone";
  if (WIFSIGNALED(status)) return absl::StrCat("signal ", WTERMSIG(status));
  return absl::StrCat("exit status ", WEXITSTATUS(status));
}

}  // namespace comera::client
