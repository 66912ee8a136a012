// The event loop that starts, reads, stops and reaps the members of this
// machine.

#include "worker/gang/gang_member.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "worker/gang/child_process.h"
#include "worker/gang/out_of_memory.h"
#include "worker/gang/stray_processes.h"

namespace comera::worker {
namespace {

constexpr size_t kMaxLineBytes = size_t{1} << 20;
constexpr size_t kTailBytes = 1024;
// How long a control group's processes may take to disappear after SIGKILL.
constexpr absl::Duration kCgroupPatience = absl::Seconds(2);
// The most bytes read from one process before the next has its turn.
constexpr size_t kReadBytes = size_t{256} << 10;
// The time between two searches for what an ended member has left behind.
constexpr absl::Duration kStrayInterval = absl::Milliseconds(20);

}  // namespace

struct GangMembers::Process {
  Id id = 0;
  ChildProcess child;
  int log = -1;
  int64_t log_bytes = 0;
  // A line of which the end has not come yet.
  std::string line;
  // Whether the rest of the line is to be skipped.
  bool cut = false;
  // The last bytes of the log.
  std::string tail;
  // The time of SIGKILL, by SteadyNow.
  absl::Time kill_time = absl::InfiniteFuture();
  // Set once it was reaped; what it left behind may still be alive.
  std::optional<MemberExit> exit;
  int64_t oom_kills_before = 0;
  std::shared_ptr<MemberCgroup> cgroup;

  ~Process() {
    for (int fd : {child.pidfd, child.out, child.err, log}) {
      if (fd >= 0) close(fd);
    }
  }
};

absl::StatusOr<std::unique_ptr<GangMembers>> GangMembers::Start(
    const Options& options, Observer* observer) {
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    return absl::UnavailableError(absl::StrCat("eventfd: ", strerror(errno)));
  }
  std::unique_ptr<GangMembers> processes(
      new GangMembers(options, observer, wake));
  // Signals are handled by the main thread.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  processes->thread_ = std::thread(&GangMembers::Loop, processes.get());
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return processes;
}

GangMembers::GangMembers(const Options& options, Observer* observer, int wake)
    : options_(options), observer_(observer), wake_(wake) {}

// Order: the thread kills and reaps all processes and ends, then its descriptor
// is closed.
GangMembers::~GangMembers() {
  if (thread_.joinable()) {
    Call([this] {
      ending_ = true;
      for (auto& [id, process] : processes_) {
        process->kill_time = absl::InfinitePast();
      }
    });
    thread_.join();
  }
  close(wake_);
}

void GangMembers::Call(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
}

absl::StatusOr<pid_t> GangMembers::Launch(Id id, const MemberCommand& command) {
  std::promise<absl::StatusOr<pid_t>> result;
  Call([&] { result.set_value(LaunchHere(id, command)); });
  return result.get_future().get();
}

void GangMembers::Stop(Id id) { Stop(id, options_.grace); }

void GangMembers::Stop(Id id, absl::Duration grace) {
  Call([this, id, grace] {
    const auto it = processes_.find(id);
    if (it == processes_.end() || it->second->exit) return;
    Process& process = *it->second;
    const bool asked = process.kill_time != absl::InfiniteFuture();
    process.kill_time = std::min(process.kill_time, SteadyNow() + grace);
    if (!asked) kill(-process.child.pid, SIGTERM);
  });
}

std::string GangMembers::MarkOf(Id id) const {
  return absl::StrCat(options_.mark, "#", id, "#");
}

void GangMembers::Kill(Id id) {
  Call([this, id] {
    const auto it = processes_.find(id);
    if (it != processes_.end()) it->second->kill_time = absl::InfinitePast();
  });
}

absl::StatusOr<pid_t> GangMembers::LaunchHere(Id id,
                                              const MemberCommand& command) {
  if (ending_) return absl::UnavailableError("ending");
  auto process = std::make_unique<Process>();
  process->id = id;
  process->log = open(command.log_path.c_str(),
                      O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (process->log < 0) {
    return absl::UnavailableError(
        absl::StrCat("open ", command.log_path, ": ", strerror(errno)));
  }
  process->oom_kills_before = OutOfMemoryKills();
  std::vector<std::string> environment = command.environment;
  if (!options_.mark.empty()) {
    environment.push_back(absl::StrCat(kMemberMark, "=", MarkOf(id)));
  }
  ChildConfinement confinement;
  if (command.user) confinement.user = &*command.user;
  if (command.cgroup) confinement.cgroup_procs = command.cgroup->procs();
  process->cgroup = command.cgroup;
  ASSIGN_OR_RETURN(process->child,
                   StartChild(command.arguments, environment, confinement));
  const pid_t pid = process->child.pid;
  processes_[id] = std::move(process);
  return pid;
}

void GangMembers::RunTasks() {
  uint64_t count;
  (void)!read(wake_, &count, sizeof(count));
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

// Kills the process groups whose grace period is over; returns the milliseconds
// until the next one is due, -1 if there is none.
int GangMembers::KillOverdue() {
  const absl::Time now = SteadyNow();
  absl::Time next = absl::InfiniteFuture();
  if (FinishEnded()) next = now + kStrayInterval;
  for (auto& [id, process] : processes_) {
    if (process->exit) continue;
    if (process->kill_time <= now) {
      kill(-process->child.pid, SIGKILL);
      if (process->cgroup) process->cgroup->KillAll(absl::ZeroDuration());
      // Repeats after a while, for processes that were forked meanwhile.
      process->kill_time = now + absl::Seconds(1);
    }
    next = std::min(next, process->kill_time);
  }
  if (next == absl::InfiniteFuture()) return -1;
  return static_cast<int>(
      std::clamp<int64_t>(absl::ToInt64Milliseconds(next - now) + 1, 1, 60000));
}

bool GangMembers::FinishEnded() {
  std::vector<Id> ended;
  std::set<pid_t> known;
  for (const auto& [id, process] : processes_) {
    if (process->exit) {
      ended.push_back(id);
    } else {
      known.insert(process->child.pid);
    }
  }
  bool any_left = false;
  for (Id id : ended) {
    std::vector<pid_t> strays;
    if (!options_.mark.empty()) strays = MarkedProcesses(MarkOf(id));
    if (options_.adopts_orphans) {
      const std::vector<pid_t> adopted = UnknownChildren(known);
      strays.insert(strays.end(), adopted.begin(), adopted.end());
    }
    if (!strays.empty()) {
      KillAndReap(strays);
      any_left = true;
      continue;
    }
    const MemberExit exit = *processes_[id]->exit;
    processes_.erase(id);
    observer_->OnExit(id, exit);
  }
  return any_left;
}

void GangMembers::Loop() {
  while (!ending_ || !processes_.empty()) {
    const int timeout = KillOverdue();
    if (ending_ && processes_.empty()) return;
    std::vector<pollfd> fds = {{wake_, POLLIN, 0}};
    std::vector<Process*> owners;
    for (auto& [id, process] : processes_) {
      owners.push_back(process.get());
      // poll() ignores descriptors that are -1.
      fds.push_back({process->child.out, POLLIN, 0});
      fds.push_back({process->child.err, POLLIN, 0});
      fds.push_back({process->child.pidfd, POLLIN, 0});
    }
    if (poll(fds.data(), fds.size(), timeout) < 0) continue;
    for (size_t i = 0; i < owners.size(); ++i) {
      if (fds[3 * i + 1].revents != 0) ReadLines(*owners[i]);
      if (fds[3 * i + 2].revents != 0) ReadLog(*owners[i]);
      if (fds[3 * i + 3].revents != 0) Reap(*owners[i]);
    }
    if (fds[0].revents != 0) RunTasks();
  }
}

namespace {

// Reads up to `limit` available bytes and passes them on; closes `fd` at its
// end.
template <typename Sink>
void ReadSome(int& fd, size_t limit, const Sink& sink) {
  char buffer[65536];
  while (fd >= 0 && limit > 0) {
    const ssize_t n = read(fd, buffer, std::min(sizeof(buffer), limit));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      close(fd);
      fd = -1;
      return;
    }
    limit -= n;
    sink(std::string_view(buffer, n));
  }
}

}  // namespace

void GangMembers::ReadLog(Process& process) {
  ReadSome(process.child.err, kReadBytes,
           [&](std::string_view text) { AppendLog(process, text); });
}

void GangMembers::ReadLines(Process& process) {
  ReadSome(process.child.out, kReadBytes, [&](std::string_view text) {
    while (!text.empty()) {
      const size_t end = text.find('\n');
      const std::string_view part = text.substr(0, end);
      if (!process.cut) {
        const size_t room = kMaxLineBytes - process.line.size();
        process.line.append(part.substr(0, room));
        process.cut = part.size() > room;
      }
      if (end == std::string_view::npos) return;
      HandleLine(process, process.line);
      process.line.clear();
      process.cut = false;
      text.remove_prefix(end + 1);
    }
  });
}

void GangMembers::HandleLine(Process& process, std::string_view line) {
  if (!process.cut && observer_->OnLine(process.id, line)) return;
  AppendLog(process, std::string(line) + "\n");
}

void GangMembers::AppendLog(Process& process, std::string_view text) {
  process.tail.append(text);
  if (process.tail.size() > kTailBytes) {
    process.tail.erase(0, process.tail.size() - kTailBytes);
  }
  const int64_t room = options_.max_log_bytes - process.log_bytes;
  text = text.substr(0, std::max<int64_t>(0, room));
  while (!text.empty()) {
    const ssize_t n = write(process.log, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    // On a full disk, training goes on without its log.
    if (n <= 0) break;
    process.log_bytes += n;
    text.remove_prefix(n);
  }
  observer_->OnLogGrown(process.id);
}

void GangMembers::Reap(Process& process) {
  // What it started may still run and hold the pipes open; it ends with the
  // member. Until the process is reaped, the number of its group cannot be
  // reused.
  if (process.exit) return;
  kill(-process.child.pid, SIGKILL);
  int status = 0;
  struct rusage usage = {};
  pid_t reaped;
  do {
    reaped = wait4(process.child.pid, &status, WNOHANG, &usage);
  } while (reaped < 0 && errno == EINTR);
  if (reaped != process.child.pid) return;
  // Also kills processes that left the group.
  if (process.cgroup) process.cgroup->KillAll(kCgroupPatience);
  // The pipes hold at most 1 MiB, and nobody can write to them any more.
  for (size_t done = 0; done <= size_t{1} << 20; done += kReadBytes) {
    ReadLines(process);
    ReadLog(process);
  }
  if (!process.line.empty()) HandleLine(process, process.line);

  MemberExit exit;
  exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  exit.peak_memory_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
  exit.out_of_memory_kill =
      exit.signal == SIGKILL && OutOfMemoryKills() > process.oom_kills_before;
  exit.log_tail = process.tail;
  process.exit = std::move(exit);
  for (int* fd :
       {&process.child.pidfd, &process.child.out, &process.child.err}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
}

}  // namespace comera::worker
