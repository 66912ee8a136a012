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
// For processes of a control group to be gone once they are killed.
constexpr absl::Duration kCgroupPatience = absl::Seconds(2);
// Read from one process before the next has its turn.
constexpr size_t kReadBytes = size_t{256} << 10;
// Between two looks for what an ended rank has left behind.
constexpr absl::Duration kStrayInterval = absl::Milliseconds(20);

}  // namespace

struct GangMembers::Process {
  Id id = 0;
  ChildProcess child;
  int log = -1;
  int64_t log_bytes = 0;
  std::string line;  // Begun, not ended yet.
  bool cut = false;  // The rest of the line is passed over.
  std::string tail;  // Last bytes of the log.
  absl::Time kill_time = absl::InfiniteFuture();  // by SteadyNow
  // Reaped; what it left behind may not be gone yet.
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
  // Signals are the main thread's.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  processes->thread_ = std::thread(&GangMembers::Loop, processes.get());
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return processes;
}

GangMembers::GangMembers(const Options& options, Observer* observer, int wake)
    : options_(options), observer_(observer), wake_(wake) {}

// Order: the thread kills and reaps all, ends, then its descriptor goes.
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
    environment.push_back(absl::StrCat(kRankMark, "=", MarkOf(id)));
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

// Kills the groups whose grace is over; returns milliseconds to the next, -1
// if there is none.
int GangMembers::KillOverdue() {
  const absl::Time now = SteadyNow();
  absl::Time next = absl::InfiniteFuture();
  if (FinishEnded()) next = now + kStrayInterval;
  for (auto& [id, process] : processes_) {
    if (process->exit) continue;
    if (process->kill_time <= now) {
      kill(-process->child.pid, SIGKILL);
      if (process->cgroup) process->cgroup->KillAll(absl::ZeroDuration());
      // Again in a while, for what was forked meanwhile.
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
      // poll passes over descriptors that are -1.
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

// Reads up to `limit` bytes that are there and hands them on; closes `fd` at
// its end.
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
    if (n <= 0) break;  // Disk full: training goes on without its log.
    process.log_bytes += n;
    text.remove_prefix(n);
  }
  observer_->OnLogGrown(process.id);
}

void GangMembers::Reap(Process& process) {
  // What it started may still run and hold the pipes: it ends with the rank.
  // While the process is not reaped, its group's number is not another's.
  if (process.exit) return;
  kill(-process.child.pid, SIGKILL);
  int status = 0;
  struct rusage usage = {};
  pid_t reaped;
  do {
    reaped = wait4(process.child.pid, &status, WNOHANG, &usage);
  } while (reaped < 0 && errno == EINTR);
  if (reaped != process.child.pid) return;
  // Also what left the group of processes.
  if (process.cgroup) process.cgroup->KillAll(kCgroupPatience);
  // Pipes hold at most 1 MiB, and no writer is left.
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
