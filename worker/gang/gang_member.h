#ifndef COMERA_WORKER_GANG_GANG_MEMBER_H_
#define COMERA_WORKER_GANG_GANG_MEMBER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/gang/member_cgroup.h"
#include "worker/gang/member_user.h"

namespace comera::worker {

struct MemberCommand {
  std::vector<std::string> arguments;
  // KEY=VALUE.
  std::vector<std::string> environment;
  // Standard error, and lines of standard output that are no events, are
  // appended here. The folder must exist.
  std::string log_path;
  // Whom it runs as; unset: this process's user.
  std::optional<MemberUser> user;
  // Control group of its own; null: none.
  std::shared_ptr<MemberCgroup> cgroup;
};

// How a process ended.
struct MemberExit {
  // Signal that ended it; 0: it exited with `code`.
  int signal = 0;
  int code = 0;
  int64_t peak_memory_bytes = 0;
  // The machine's count of out-of-memory kills rose during its life.
  bool out_of_memory_kill = false;
  // Last KiB of the log.
  std::string log_tail;
};

// The rank processes of this machine: starts them, reads what they write,
// stops them, reaps them.
//
// Life cycle: one thread owns the processes, forks them and serves them;
// destruction kills what is left and reaps it. Processes die with this one,
// even if it is killed.
//
// Thread safety: all methods may be called from any thread, but not from the
// observer's methods.
class GangMembers {
 public:
  using Id = int64_t;

  // Called from the one thread, in order: lines, then the end.
  class Observer {
   public:
    virtual ~Observer() = default;
    // One line of standard output without its newline, 1 MiB at most (longer
    // ones are cut). False: it is no event and belongs in the log.
    virtual bool OnLine(Id id, std::string_view line) = 0;
    virtual void OnLogGrown(Id id) = 0;
    // The process is gone and reaped, with all that it started, and all its
    // output was seen.
    virtual void OnExit(Id id, const MemberExit& exit) = 0;
  };

  struct Options {
    // From SIGTERM to SIGKILL.
    absl::Duration grace = absl::Seconds(30);
    // The log of a process ends here.
    int64_t max_log_bytes = int64_t{256} << 20;
    // Begins the mark (stray_processes.h) of all that ranks start; empty: none,
    // and what leaves a rank's process group outlives it.
    std::string mark;
    // This process adopts orphans, so that also those of them without a mark
    // are found. It must have no children but ranks.
    bool adopts_orphans = false;
  };

  static absl::StatusOr<std::unique_ptr<GangMembers>> Start(
      const Options& options, Observer* observer);
  ~GangMembers();

  // The observer may hear of the process before this returns; `id` is chosen
  // by the caller and must be new. NotFound, PermissionDenied, Unavailable:
  // the program could not be started. Returns its process id.
  absl::StatusOr<pid_t> Launch(Id id, const MemberCommand& command);

  // SIGTERM now, SIGKILL to the whole process group after the grace period.
  // A process that is gone is ignored.
  void Stop(Id id);
  // The same with another grace period; a shorter one goes before a longer.
  void Stop(Id id, absl::Duration grace);
  // SIGKILL to the whole process group.
  void Kill(Id id);

 private:
  struct Process;

  GangMembers(const Options& options, Observer* observer, int wake);
  void Loop();
  void Call(std::function<void()> task);
  void RunTasks() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<pid_t> LaunchHere(Id id, const MemberCommand& command);
  int KillOverdue();
  std::string MarkOf(Id id) const;
  // Kills what ended processes have left behind, and tells the ends of those
  // of which nothing is left. True: something still is.
  bool FinishEnded();
  void ReadLog(Process& process);
  void ReadLines(Process& process);
  void HandleLine(Process& process, std::string_view line);
  void AppendLog(Process& process, std::string_view text);
  void Reap(Process& process);

  const Options options_;
  Observer* const observer_;
  const int wake_;  // eventfd
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  // Of the thread.
  std::map<Id, std::unique_ptr<Process>> processes_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_GANG_MEMBER_H_
