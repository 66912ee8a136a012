// Runs a program with its output in pipes and reads both to the end.

#include "client/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace comera::client {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;

// Both ends of a pipe, closed at destruction.
struct Pipe {
  int ends[2] = {-1, -1};
  ~Pipe() {
    Close(0);
    Close(1);
  }
  void Close(int end) {
    if (ends[end] >= 0) close(ends[end]);
    ends[end] = -1;
  }
};

// Runs in the child: only async-signal-safe calls. Returns errno if exec
// failed.
int Become(char* const* argv, int out, int err, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // The parent may have died before prctl.
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
      dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) {
    return errno;
  }
  execv(argv[0], argv);
  return errno;
}

// Appends the available bytes; closes the pipe at its end.
absl::Status Drain(Pipe* pipe, std::string* to) {
  char buffer[1 << 14];
  const ssize_t got = read(pipe->ends[0], buffer, sizeof(buffer));
  if (got < 0) {
    return errno == EINTR ? absl::OkStatus() : ErrnoStatus(errno, "read");
  }
  if (got == 0) pipe->Close(0);
  to->append(buffer, got);
  if (to->size() <= kMostBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError("the program says too much");
}

absl::Status ReadBoth(Pipe* out, Pipe* err, ProgramOutput* to) {
  while (out->ends[0] >= 0 || err->ends[0] >= 0) {
    // poll() ignores descriptors below 0.
    pollfd waits[] = {{out->ends[0], POLLIN, 0}, {err->ends[0], POLLIN, 0}};
    if (poll(waits, 2, -1) < 0 && errno != EINTR) {
      return ErrnoStatus(errno, "poll");
    }
    absl::Status status;
    if (waits[0].revents != 0) status.Update(Drain(out, &to->out));
    if (waits[1].revents != 0) status.Update(Drain(err, &to->err));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ProgramOutput> RunProgram(
    const std::vector<std::string>& arguments) {
  // `failure` carries the errno of a failed exec; a successful exec closes it.
  Pipe out, err, failure;
  for (Pipe* pipe : {&out, &err, &failure}) {
    if (pipe2(pipe->ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  }
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "fork");
  if (pid == 0) {
    const int error = Become(argv.data(), out.ends[1], err.ends[1], parent);
    if (write(failure.ends[1], &error, sizeof(error)) < 0) _exit(126);
    _exit(127);
  }
  for (Pipe* pipe : {&out, &err, &failure}) pipe->Close(1);
  int error = 0;
  ssize_t got;
  do {
    got = read(failure.ends[0], &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  ProgramOutput output;
  absl::Status status = got == sizeof(error) ? ErrnoStatus(error, arguments[0])
                                             : ReadBoth(&out, &err, &output);
  if (!status.ok()) kill(pid, SIGKILL);
  int ended = 0;
  while (waitpid(pid, &ended, 0) < 0 && errno == EINTR) {
  }
  if (!status.ok()) return status;
  output.exit_code =
      WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
  return output;
}

}  // namespace comera::client
