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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <optional>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "worker/gang/child_process.h"
#include "worker/gang/stray_processes.h"
#include "worker/trainer/process/exit_line.h"

namespace comera::worker {
namespace {

constexpr size_t kMaxLineBytes = size_t{1} << 20;
constexpr size_t kTailBytes = 1024;
// How often what an ended process has written is read on at once: a GiB, of
// which a child has more only if it was stopped for writing too much.
constexpr int kMostReads = 4096;
// How often files are looked at: poll() does not work on them, and instances of
// inotify are scarce.
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
// How often the memory of a process that is no child is looked at, whose end
// tells nothing of it.
constexpr absl::Duration kMemoryInterval = absl::Seconds(1);
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
  // Whether it is a child of this process.
  bool own = true;
  bool survives = false;
  int events = -1;
  // How far the events have been read.
  int64_t read_to = 0;
  // Their size when the end of an adopted process was noticed.
  std::optional<int64_t> events_bytes;
  int log = -1;
  int64_t log_bytes = 0;
  // The last words that were cut off the log; empty if none were.
  std::string cut_tail;
  // A line of which the end has not come yet.
  std::string line;
  // Whether the rest of the line is to be skipped.
  bool cut = false;
  // The exit code that it wrote.
  std::optional<int> told_code;
  // The time of SIGKILL, by SteadyNow.
  absl::Time kill_time = absl::InfiniteFuture();
  // Set once it has ended; what it left behind may still be alive.
  std::optional<MemberExit> exit;
  int64_t oom_kills_before = 0;
  int64_t peak_memory_bytes = 0;
  absl::Time next_memory = absl::InfinitePast();
  std::shared_ptr<MemberCgroup> cgroup;

  ~Process() {
    for (int fd : {child.pidfd, events, log}) {
      if (fd >= 0) close(fd);
    }
  }
};

namespace {

int OpenLog(const std::string& path) {
  return open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

int64_t SizeOf(int fd) {
  struct stat info;
  return fd >= 0 && fstat(fd, &info) == 0 ? info.st_size : 0;
}

// The first byte from `offset` on that was written, not skipped: a program that
// makes its file longer than what it has written costs nobody the time to read
// that. `offset` itself where the file system cannot tell.
int64_t NextWritten(int fd, int64_t offset) {
  // Taken first: what is appended meanwhile is not skipped.
  const int64_t size = SizeOf(fd);
  const off_t next = lseek(fd, offset, SEEK_DATA);
  if (next >= 0) return next;
  return errno == ENXIO ? std::max(offset, size) : offset;
}

// Reads what is there of `limit` bytes from `offset`.
std::string ReadAt(int fd, int64_t offset, size_t limit) {
  std::string data(limit, '\0');
  ssize_t n;
  do {
    n = pread(fd, data.data(), data.size(), offset);
  } while (n < 0 && errno == EINTR);
  data.resize(std::max<ssize_t>(n, 0));
  return data;
}

// The most memory that the living process has had; 0 if the system does not
// say.
int64_t PeakMemory(pid_t pid) {
  const absl::StatusOr<std::string> status =
      ReadFile(absl::StrCat("/proc/", pid, "/status"));
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

}  // namespace

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
  End(/*leave=*/false);
  close(wake_);
}

void GangMembers::Leave() { End(/*leave=*/true); }

void GangMembers::End(bool leave) {
  if (!thread_.joinable()) return;
  Call([this, leave] {
    ending_ = true;
    for (auto it = processes_.begin(); it != processes_.end();) {
      Process& process = *it->second;
      if (leave && process.survives && !process.exit) {
        if (process.cgroup) process.cgroup->Keep();
        it = processes_.erase(it);
        continue;
      }
      process.kill_time = absl::InfinitePast();
      ++it;
    }
  });
  thread_.join();
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
    if (!asked) Signal(process, SIGTERM);
  });
}

void GangMembers::Adopt(Id id, AdoptedMember member) {
  Call([this, id, member = std::move(member)] { AdoptHere(id, member); });
}

void GangMembers::ForgetEvents(Id id, int64_t offset) {
  Call([this, id, offset] {
    const auto it = processes_.find(id);
    if (it == processes_.end()) return;
    // File systems that cannot do this keep the bytes.
    fallocate(it->second->events, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
              offset);
  });
}

std::string GangMembers::MarkOf(const std::string& beginning, Id id) {
  return absl::StrCat(beginning, "#", id, "#");
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
  process->survives = command.survives;
  process->log = OpenLog(command.log_path);
  if (process->log < 0) {
    return absl::UnavailableError(
        absl::StrCat("open ", command.log_path, ": ", strerror(errno)));
  }
  process->log_bytes = SizeOf(process->log);
  process->events = open(command.events_path.c_str(),
                         O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (process->events < 0) {
    return absl::UnavailableError(
        absl::StrCat("open ", command.events_path, ": ", strerror(errno)));
  }
  // Only appends to them, and has nothing of this process's own descriptor.
  const int output =
      open(command.events_path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  const auto closer = absl::MakeCleanup([output] {
    if (output >= 0) close(output);
  });
  if (output < 0) {
    return absl::UnavailableError(
        absl::StrCat("open ", command.events_path, ": ", strerror(errno)));
  }
  process->oom_kills_before = options_.out_of_memory_kills();
  std::vector<std::string> environment = command.environment;
  if (!options_.mark.empty()) {
    environment.push_back(absl::StrCat(kMemberMark, "=", MarkOf(id)));
  }
  ChildConfinement confinement;
  if (command.user) confinement.user = &*command.user;
  if (command.cgroup) confinement.cgroup_procs = command.cgroup->procs();
  if (command.file_rules) confinement.file_rules = command.file_rules->fd();
  confinement.standard_output = output;
  confinement.standard_error = process->log;
  confinement.survives = command.survives;
  process->cgroup = command.cgroup;
  ASSIGN_OR_RETURN(process->child,
                   StartChild(command.arguments, environment, confinement));
  const pid_t pid = process->child.pid;
  processes_[id] = std::move(process);
  return pid;
}

void GangMembers::AdoptHere(Id id, AdoptedMember member) {
  auto process = std::make_unique<Process>();
  process->id = id;
  process->own = false;
  process->survives = true;
  process->child.pid = member.pid;
  process->child.pidfd = member.pidfd;
  // Where a file is gone, there is nothing to read.
  process->log = OpenLog(member.log_path);
  process->log_bytes = SizeOf(process->log);
  process->events = open(member.events_path.c_str(), O_RDWR | O_CLOEXEC);
  process->read_to = member.events_offset;
  process->cgroup = std::move(member.cgroup);
  process->oom_kills_before = options_.out_of_memory_kills();
  processes_[id] = std::move(process);
  observer_->OnLogGrown(id);
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
    next = std::min(next, now + kPollInterval);
    if (process->kill_time <= now) {
      Signal(*process, SIGKILL);
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
  std::set<std::string> marks = options_.other_marks;
  for (const auto& [id, process] : processes_) {
    if (process->exit) {
      ended.push_back(id);
      continue;
    }
    if (process->own) known.insert(process->child.pid);
    if (!options_.mark.empty()) marks.insert(MarkOf(id));
  }
  bool any_left = false;
  for (Id id : ended) {
    std::vector<pid_t> strays;
    if (!options_.mark.empty()) strays = MarkedProcesses(MarkOf(id));
    if (options_.adopts_orphans) {
      const std::vector<pid_t> adopted = UnknownChildren(known, marks);
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
  bool more = false;
  while (!ending_ || !processes_.empty()) {
    const int timeout = KillOverdue();
    if (ending_ && processes_.empty()) return;
    std::vector<pollfd> fds = {{wake_, POLLIN, 0}};
    std::vector<Process*> owners;
    for (auto& [id, process] : processes_) {
      owners.push_back(process.get());
      // poll() ignores descriptors that are -1.
      fds.push_back({process->child.pidfd, POLLIN, 0});
    }
    if (poll(fds.data(), fds.size(), more ? 0 : timeout) < 0) continue;
    more = false;
    for (size_t i = 0; i < owners.size(); ++i) {
      if (owners[i]->exit) continue;
      const bool rest = ReadLines(*owners[i]);
      more = rest || more;
      PollLog(*owners[i]);
      // An adopted process without a descriptor had ended before.
      const bool ended = fds[i + 1].revents != 0 || owners[i]->child.pidfd < 0;
      // All that was written while nobody read may take long, so that others
      // have their turns meanwhile.
      if (ended && !(rest && HasRest(*owners[i]))) Reap(*owners[i]);
    }
    if (fds[0].revents != 0) RunTasks();
  }
}

void GangMembers::Signal(const Process& process, int signal) {
  // A child keeps its number until it is reaped.
  if (!process.own) {
    pollfd ended = {process.child.pidfd, POLLIN, 0};
    if (process.child.pidfd < 0 || poll(&ended, 1, 0) != 0) return;
  }
  kill(-process.child.pid, signal);
}

bool GangMembers::HasRest(Process& process) {
  if (process.own) return false;
  if (!process.events_bytes) process.events_bytes = SizeOf(process.events);
  return process.events >= 0 && process.read_to < *process.events_bytes;
}

bool GangMembers::ReadLines(Process& process) {
  if (process.events < 0) return false;
  // A line that is still to be offered has no gaps.
  if (process.line.empty() || process.cut) {
    process.read_to = NextWritten(process.events, process.read_to);
  }
  const std::string data = ReadAt(process.events, process.read_to, kReadBytes);
  std::string_view text = data;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view part = text.substr(0, end);
    if (!process.cut) {
      const size_t room = kMaxLineBytes - process.line.size();
      process.line.append(part.substr(0, room));
      process.cut = part.size() > room;
    }
    process.read_to += static_cast<int64_t>(part.size());
    if (end == std::string_view::npos) break;
    ++process.read_to;
    HandleLine(process, process.line);
    process.line.clear();
    process.cut = false;
    text.remove_prefix(end + 1);
  }
  return data.size() == kReadBytes;
}

void GangMembers::HandleLine(Process& process, std::string_view line) {
  absl::string_view code_text(line.data(), line.size());
  int code = 0;
  if (absl::ConsumePrefix(&code_text, trainer::kExitLine) &&
      absl::SimpleAtoi(code_text, &code)) {
    process.told_code = code;
    return;
  }
  if (!process.cut && observer_->OnLine(process.id, line, process.read_to)) {
    return;
  }
  AppendLog(process, std::string(line) + "\n");
}

void GangMembers::AppendLog(Process& process, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(process.log, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    // On a full disk, training goes on without its log.
    if (n <= 0) break;
    text.remove_prefix(n);
  }
}

void GangMembers::PollLog(Process& process) {
  if (!process.own && process.child.pidfd >= 0 &&
      SteadyNow() >= process.next_memory) {
    process.next_memory = SteadyNow() + kMemoryInterval;
    process.peak_memory_bytes =
        std::max(process.peak_memory_bytes, PeakMemory(process.child.pid));
  }
  const int64_t size = SizeOf(process.log);
  if (size == process.log_bytes) return;
  // The member appends, so that it goes on at the new end.
  if (size > options_.max_log_bytes) {
    process.cut_tail = LogTail(process);
    (void)!ftruncate(process.log, options_.max_log_bytes);
  }
  process.log_bytes = std::min(size, options_.max_log_bytes);
  observer_->OnLogGrown(process.id);
}

std::string GangMembers::LogTail(const Process& process) const {
  const int64_t size = SizeOf(process.log);
  // What is behind the bound was appended since the last cut.
  const int64_t begin = process.cut_tail.empty() ? 0 : options_.max_log_bytes;
  std::string tail = process.cut_tail;
  if (size > begin) {
    tail += ReadAt(process.log,
                   std::max<int64_t>(begin, size - int64_t{kTailBytes}),
                   kTailBytes);
  }
  if (tail.size() > kTailBytes) tail.erase(0, tail.size() - kTailBytes);
  return tail;
}

bool GangMembers::ReadExit(Process& process, MemberExit* exit) {
  exit->peak_memory_bytes = process.peak_memory_bytes;
  if (!process.own) {
    exit->known = process.told_code.has_value();
    exit->code = process.told_code.value_or(0);
    return true;
  }
  int status = 0;
  struct rusage usage = {};
  pid_t reaped;
  do {
    reaped = wait4(process.child.pid, &status, WNOHANG, &usage);
  } while (reaped < 0 && errno == EINTR);
  if (reaped != process.child.pid) return false;
  exit->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  exit->code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  exit->peak_memory_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
  return true;
}

void GangMembers::Reap(Process& process) {
  // What it started ends with it. Until a child is reaped, the number of its
  // group cannot be reused; what another's child leaves is found by its mark.
  if (process.exit) return;
  if (process.own) kill(-process.child.pid, SIGKILL);
  MemberExit exit;
  if (process.own && !ReadExit(process, &exit)) return;
  // Also kills processes that left the group.
  if (process.cgroup) process.cgroup->KillAll(kCgroupPatience);
  // Nobody writes to the files any more.
  for (int i = 0; i < kMostReads && ReadLines(process); ++i) continue;
  if (!process.line.empty()) HandleLine(process, process.line);
  if (!process.own) ReadExit(process, &exit);
  exit.log_tail = LogTail(process);
  PollLog(process);
  // How an adopted process ended is not known, unless it said so itself.
  exit.out_of_memory_kill =
      (exit.signal == SIGKILL || !exit.known) &&
      options_.out_of_memory_kills() > process.oom_kills_before;
  process.exit = std::move(exit);
  if (process.child.pidfd >= 0) close(process.child.pidfd);
  process.child.pidfd = -1;
}

}  // namespace comera::worker
