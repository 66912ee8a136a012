// Starts a program with posix_spawn, and reaps it.
#include "worker/trainer/program/program_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/files.h"

namespace comera::trainer {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

absl::Status StartError(int error, const std::string& program,
                        const std::string& folder) {
  const std::string message = absl::StrCat("cannot run ", program, " in ",
                                           folder, ": ", strerror(error));
  switch (error) {
    case ENOENT:
    case EACCES:
    case ENOTDIR:
    case ENOEXEC:
    case ELOOP:
    case E2BIG:
      return absl::InvalidArgumentError(message);
    default:
      return absl::UnavailableError(message);
  }
}

// The processor time of a process of the group, in ticks; 0 for all others.
double TicksOf(pid_t pid, pid_t group) {
  const absl::StatusOr<std::string> stat =
      ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!stat.ok()) return 0;
  // The name, in parentheses, may hold anything.
  const size_t name = stat->rfind(')');
  if (name == std::string::npos) return 0;
  const std::vector<std::string> fields =
      absl::StrSplit(stat->substr(name + 1), ' ', absl::SkipEmpty());
  // pgrp is field 5, and utime, stime, cutime and cstime are 14 to 17
  // (proc(5)); the first one here is field 3.
  pid_t own = 0;
  if (fields.size() < 15 || !absl::SimpleAtoi(fields[2], &own) ||
      own != group) {
    return 0;
  }
  double ticks = 0;
  for (size_t field = 11; field < 15; ++field) {
    int64_t value = 0;
    if (absl::SimpleAtoi(fields[field], &value)) {
      ticks += static_cast<double>(value);
    }
  }
  return ticks;
}

}  // namespace

absl::StatusOr<ProgramProcess> ProgramProcess::Start(
    const std::vector<std::string>& arguments,
    const std::vector<std::string>& environment, const std::string& folder,
    int output) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const auto destroy = absl::MakeCleanup([&] {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  });
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &actions, &attributes,
                                argv.data(), envp.data());
  if (error != 0) return StartError(error, arguments[0], folder);
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  ProgramProcess process(pid, pidfd);
  if (pidfd < 0) {
    return absl::UnavailableError(
        absl::StrCat("pidfd_open: ", strerror(errno)));
  }
  return process;
}

ProgramProcess::ProgramProcess(ProgramProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::exchange(other.pidfd_, -1)),
      exit_(other.exit_) {}

ProgramProcess::~ProgramProcess() {
  if (pid_ > 0 && !exit_) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  if (pidfd_ >= 0) close(pidfd_);
}

void ProgramProcess::Signal(int signal) const {
  if (!exit_) kill(pid_, signal);
}

std::optional<ProgramExit> ProgramProcess::Poll() {
  if (exit_) return exit_;
  int status = 0;
  pid_t reaped;
  do {
    reaped = waitpid(pid_, &status, WNOHANG);
  } while (reaped < 0 && errno == EINTR);
  if (reaped != pid_) return std::nullopt;
  exit_ = ProgramExit();
  if (WIFSIGNALED(status)) exit_->signal = WTERMSIG(status);
  if (WIFEXITED(status)) exit_->code = WEXITSTATUS(status);
  return exit_;
}

double ProgramProcess::ProcessorSeconds() const {
  const pid_t group = getpgrp();
  double ticks = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end;
       !error && it != end; it.increment(error)) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(it->path().filename().string(), &pid) &&
        pid != getpid()) {
      ticks += TicksOf(pid, group);
    }
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int64_t ProgramProcess::PeakMemoryBytes() const {
  const absl::StatusOr<std::string> status =
      ReadFile(absl::StrCat("/proc/", pid_, "/status"));
  if (!status.ok()) return 0;
  for (absl::string_view line : absl::StrSplit(*status, '\n')) {
    int64_t kib = 0;
    if (absl::ConsumePrefix(&line, "VmHWM:") &&
        absl::ConsumeSuffix(&line, " kB") && absl::SimpleAtoi(line, &kib)) {
      return kib * 1024;
    }
  }
  return 0;
}

}  // namespace comera::trainer
