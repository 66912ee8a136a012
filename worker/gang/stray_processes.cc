// Searches /proc for the processes that members started and left behind.

#include "worker/gang/stray_processes.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/steady_time.h"

namespace comera::worker {
namespace {

constexpr absl::Duration kLookInterval = absl::Milliseconds(10);

void ForEachProcess(const std::function<void(pid_t)>& visit) {
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return;
  while (const dirent* entry = readdir(proc)) {
    int pid = 0;
    if (absl::SimpleAtoi(entry->d_name, &pid) && pid > 1 && pid != getpid()) {
      visit(pid);
    }
  }
  closedir(proc);
}

struct State {
  char state = 'Z';
  pid_t parent = 0;
};

std::optional<State> StateOf(pid_t pid) {
  const absl::StatusOr<std::string> stat =
      ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!stat.ok()) return std::nullopt;
  // The name, in parentheses, may contain any character.
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(stat->substr(name_end + 1), ' ', absl::SkipEmpty());
  State state;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &state.parent)) {
    return std::nullopt;
  }
  state.state = fields[0][0];
  return state;
}

// The mark of the process; empty if it has none.
std::string MarkOf(pid_t pid) {
  const absl::StatusOr<std::string> environment =
      ReadFile(absl::StrCat("/proc/", pid, "/environ"));
  if (!environment.ok()) return "";
  const std::string key = absl::StrCat(kMemberMark, "=");
  for (absl::string_view entry : absl::StrSplit(*environment, '\0')) {
    if (absl::StartsWith(entry, key)) {
      return std::string(entry.substr(key.size()));
    }
  }
  return "";
}

// Whether the process is this one, or a child of it between fork and exec,
// which still shows this one's environment.
bool RunsThisProgram(pid_t pid) {
  std::error_code error, own_error;
  const auto program =
      std::filesystem::read_symlink(absl::StrCat("/proc/", pid, "/exe"), error);
  const auto own = std::filesystem::read_symlink("/proc/self/exe", own_error);
  return !error && !own_error && program == own;
}

bool Lives(pid_t pid) {
  const std::optional<State> state = StateOf(pid);
  return state && state->state != 'Z' && state->state != 'X';
}

}  // namespace

void AdoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::vector<pid_t> MarkedProcesses(const std::string& mark,
                                   const std::set<std::string>& spared) {
  std::vector<pid_t> found;
  ForEachProcess([&](pid_t pid) {
    const std::string own = MarkOf(pid);
    if (absl::StartsWith(own, mark) && spared.count(own) == 0 && Lives(pid)) {
      found.push_back(pid);
    }
  });
  return found;
}

std::vector<pid_t> UnknownChildren(const std::set<pid_t>& known,
                                   const std::set<std::string>& marks) {
  std::vector<pid_t> found;
  const auto is_known = [&marks](const std::string& mark) {
    return std::any_of(marks.begin(), marks.end(),
                       [&mark](const std::string& beginning) {
                         return absl::StartsWith(mark, beginning);
                       });
  };
  ForEachProcess([&](pid_t pid) {
    const std::optional<State> state = StateOf(pid);
    if (state && state->parent == getpid() && known.count(pid) == 0 &&
        !RunsThisProgram(pid) && !is_known(MarkOf(pid))) {
      found.push_back(pid);
    }
  });
  return found;
}

void KillAndReap(const std::vector<pid_t>& processes) {
  for (pid_t pid : processes) kill(pid, SIGKILL);
  for (pid_t pid : processes) {
    // ECHILD: the process is a child of another.
    while (waitpid(pid, nullptr, WNOHANG) < 0 && errno == EINTR) continue;
  }
}

absl::Status KillMarked(const std::string& mark, absl::Duration timeout,
                        const std::set<std::string>& spared) {
  const absl::Time deadline = SteadyNow() + timeout;
  while (true) {
    const std::vector<pid_t> found = MarkedProcesses(mark, spared);
    if (found.empty()) return absl::OkStatus();
    KillAndReap(found);
    if (SteadyNow() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "process ", found.front(), " of an earlier worker does not end"));
    }
    absl::SleepFor(kLookInterval);
  }
}

}  // namespace comera::worker
