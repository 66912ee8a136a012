// Forks and executes a child: user, control group, rights and descriptors are
// set before exec.

#include "worker/gang/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/files/descriptor.h"
#include "worker/gang/file_rules.h"
#include "worker/gang/member_environment.h"

namespace comera::worker {
namespace {

absl::Status Errno(int error, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status MakePipe(Descriptor& read_end, Descriptor& write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Errno(errno, "pipe2");
  read_end = Descriptor(ends[0]);
  write_end = Descriptor(ends[1]);
  return absl::OkStatus();
}

// Takes the caller's descriptor, or makes a pipe if that is -1.
absl::Status OpenOutput(int given, Descriptor& read_end,
                        Descriptor& write_end) {
  if (given < 0) return MakePipe(read_end, write_end);
  write_end = Descriptor(fcntl(given, F_DUPFD_CLOEXEC, 0));
  if (write_end.get() < 0) return Errno(errno, "output");
  return absl::OkStatus();
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Gives up this process's rights for the user's, for good; returns errno on
// failure. It uses system calls directly, because the library's functions would
// notify other threads, which a forked child does not have.
bool BecomeUser(const MemberUser& user) {
  return syscall(SYS_setgroups, user.groups.size(), user.groups.data()) == 0 &&
         syscall(SYS_setresgid, user.gid, user.gid, user.gid) == 0 &&
         syscall(SYS_setresuid, user.uid, user.uid, user.uid) == 0;
}

// Runs between fork and exec, so only async-signal-safe calls are allowed.
[[noreturn]] void BecomeChild(pid_t parent, int in, int out, int err,
                              int failure, char* const* arguments,
                              char* const* environment,
                              const ChildConfinement& confinement) {
  setpgid(0, 0);
  bool good = true;
  // Joins the group before it can start anything, and while it is still allowed
  // to.
  if (confinement.cgroup_procs >= 0) {
    good = write(confinement.cgroup_procs, "0", 1) == 1;
  }
  if (good && confinement.user != nullptr) good = BecomeUser(*confinement.user);
  if (good && confinement.memory_bytes > 0) {
    const auto bytes = static_cast<rlim_t>(confinement.memory_bytes);
    const struct rlimit limit = {bytes, bytes};
    good = setrlimit(RLIMIT_DATA, &limit) == 0;
  }
  // Keeps the programs that it starts from gaining rights.
  good = good && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  if (good && confinement.file_rules >= 0) {
    good = FileRules::Apply(confinement.file_rules);
  }
  // Comes after the change of user, which clears it.
  if (!confinement.survives) prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before prctl.
  if (getppid() != parent) _exit(127);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Closes at exec what some library opened without O_CLOEXEC.
  syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);
  if (good && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
      dup2(err, STDERR_FILENO) >= 0) {
    execve(arguments[0], arguments, environment);
  }
  const int error = errno;
  (void)!write(failure, &error, sizeof(error));
  _exit(127);
}

}  // namespace

absl::StatusOr<ChildProcess> StartChild(
    const std::vector<std::string>& arguments,
    const std::vector<std::string>& environment,
    const ChildConfinement& confinement) {
  if (arguments.empty()) return absl::InvalidArgumentError("no program");
  std::vector<std::string> argument_strings = arguments;
  std::vector<std::string> environment_strings =
      MemberEnvironment(environ, environment);
  const std::vector<char*> argv = Pointers(argument_strings);
  const std::vector<char*> envp = Pointers(environment_strings);

  Descriptor in(confinement.standard_input >= 0
                    ? fcntl(confinement.standard_input, F_DUPFD_CLOEXEC, 0)
                    : open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (in.get() < 0) return Errno(errno, "standard input");
  Descriptor out_read, out_write, err_read, err_write, fail_read, fail_write;
  RETURN_IF_ERROR(OpenOutput(confinement.standard_output, out_read, out_write));
  RETURN_IF_ERROR(OpenOutput(confinement.standard_error, err_read, err_write));
  RETURN_IF_ERROR(MakePipe(fail_read, fail_write));

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return Errno(errno, "fork");
  if (pid == 0) {
    BecomeChild(parent, in.get(), out_write.get(), err_write.get(),
                fail_write.get(), argv.data(), envp.data(), confinement);
  }
  // Also done in the child: whichever comes first makes the group.
  setpgid(pid, pid);
  out_write.Close();
  err_write.Close();
  fail_write.Close();
  int error = 0;
  ssize_t n;
  do {
    n = read(fail_read.get(), &error, sizeof(error));
  } while (n < 0 && errno == EINTR);
  Descriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (n > 0 || pidfd.get() < 0) {
    const absl::Status status = n > 0 ? Errno(error, "exec " + arguments[0])
                                      : Errno(errno, "pidfd_open");
    kill(-pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
    return status;
  }
  for (const Descriptor* end : {&out_read, &err_read}) {
    if (end->get() >= 0) fcntl(end->get(), F_SETFL, O_NONBLOCK);
  }
  ChildProcess child;
  child.pid = pid;
  child.pidfd = pidfd.Release();
  child.out = out_read.Release();
  child.err = err_read.Release();
  return child;
}

}  // namespace comera::worker
