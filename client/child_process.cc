// Forks and executes programs in their own process groups and tells how they
// end.

#include "client/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace comera::client {
namespace {

absl::Status ErrnoStatus(int error, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

// Variables with this prefix are meant for a coordinator elsewhere, tokens
// among them, and must not reach the private one.
constexpr char kOwn[] = "COMERA_";

// Runs in the child: only async-signal-safe calls. Returns errno if exec
// failed.
int Become(char* const* argv, char* const* environment, int log, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // The parent may have died before prctl.
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
      dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) {
    return errno;
  }
  execve(argv[0], argv, environment);
  return errno;
}

}  // namespace

absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& arguments,
                                   const std::string& log_path) {
  const int log =
      open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return ErrnoStatus(errno, log_path);
  // Carries the errno of a failed exec; a successful exec closes it.
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) {
    const int error = errno;
    close(log);
    return ErrnoStatus(error, "pipe");
  }
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
    const int error = Become(argv.data(), environment.data(), log, parent);
    if (write(failure[1], &error, sizeof(error)) < 0) _exit(126);
    _exit(127);
  }
  const int fork_error = errno;
  close(log);
  close(failure[1]);
  int error = 0;
  ssize_t got = 0;
  if (pid > 0) {
    do {
      got = read(failure[0], &error, sizeof(error));
    } while (got < 0 && errno == EINTR);
  }
  close(failure[0]);
  if (pid < 0) return ErrnoStatus(fork_error, "fork");
  if (got == sizeof(error)) {
    waitpid(pid, nullptr, 0);
    return ErrnoStatus(error, arguments[0]);
  }
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
