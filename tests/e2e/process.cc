// Starts a child in its own process group, reads its lines and waits for its
// end.

#include "tests/e2e/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/time/clock.h"

namespace comera::e2e {
namespace {

int PollMilliseconds(absl::Time deadline) {
  const auto left = absl::ToInt64Milliseconds(deadline - absl::Now());
  return left > 0 ? static_cast<int>(left) : 0;
}

// Returns true when `pid` ended before the deadline.
bool WaitPidfd(pid_t pid, absl::Time deadline) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return true;
  pollfd entry = {fd, POLLIN, 0};
  int ready;
  do {
    ready = ::poll(&entry, 1, PollMilliseconds(deadline));
  } while (ready < 0 && errno == EINTR);
  ::close(fd);
  return ready > 0;
}

}  // namespace

Process::Process(const std::vector<std::string>& argv,
                 const std::string& stderr_path) {
  std::vector<char*> arguments;
  for (const std::string& a : argv) {
    arguments.push_back(const_cast<char*>(a.c_str()));
  }
  arguments.push_back(nullptr);
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) std::abort();
  const int err = ::open(stderr_path.c_str(),
                         O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    // Keeps the child from outliving a test that is killed.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(pipe_ends[1], STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    ::execv(arguments[0], arguments.data());
    std::perror(arguments[0]);
    ::_exit(127);
  }
  ::close(pipe_ends[1]);
  ::close(err);
  out_ = pipe_ends[0];
}

Process::~Process() {
  if (!exit_code_) {
    ::kill(-pid_, SIGKILL);
    Wait(absl::Seconds(30));
  }
  ::close(out_);
}

std::optional<std::string> Process::ReadLine(absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  while (true) {
    const size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    pollfd entry = {out_, POLLIN, 0};
    const int ready = ::poll(&entry, 1, PollMilliseconds(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    char chunk[1 << 14];
    const ssize_t n = ::read(out_, chunk, sizeof(chunk));
    if (n <= 0) return std::nullopt;
    buffer_.append(chunk, n);
  }
}

std::optional<int> Process::Wait(absl::Duration limit) {
  if (exit_code_) return exit_code_;
  if (!WaitPidfd(pid_, absl::Now() + limit)) return std::nullopt;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_code_;
}

std::vector<pid_t> Children(pid_t parent, const std::string& name) {
  std::vector<pid_t> found;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return found;
  while (dirent* entry = ::readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    std::ifstream stat("/proc/" + std::string(entry->d_name) + "/stat");
    std::stringstream text;
    text << stat.rdbuf();
    const std::string line = text.str();
    const size_t open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos) continue;
    // The kernel cuts comm to 15 characters.
    if (line.substr(open + 1, close - open - 1) != name.substr(0, 15)) continue;
    char state;
    pid_t ppid = 0;
    std::istringstream(line.substr(close + 1)) >> state >> ppid;
    if (ppid == parent && state != 'Z') found.push_back(pid);
  }
  ::closedir(proc);
  return found;
}

bool WaitForFile(const std::string& folder, const std::string& name,
                 absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  const int watch = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  ::inotify_add_watch(watch, folder.c_str(), IN_MOVED_TO);
  bool there = false;
  while (true) {
    // Checked after the watch began, so that no rename is missed.
    there = ::access((folder + "/" + name).c_str(), F_OK) == 0;
    pollfd entry = {watch, POLLIN, 0};
    if (there || ::poll(&entry, 1, PollMilliseconds(deadline)) == 0) break;
    char events[4096];
    while (::read(watch, events, sizeof(events)) > 0) {
    }
  }
  ::close(watch);
  return there;
}

bool WaitUntilGone(pid_t pid, absl::Duration limit) {
  return WaitPidfd(pid, absl::Now() + limit);
}

}  // namespace comera::e2e
