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

// The command that starts a member, and the limits under which it runs.
struct MemberCommand {
  std::vector<std::string> arguments;
  // Additions to its environment, as KEY=VALUE.
  std::vector<std::string> environment;
  // The file to which standard error, and lines of standard output that are not
  // events, are appended. Its folder must exist.
  std::string log_path;
  // The user to run as; unset means this process's own user.
  std::optional<MemberUser> user;
  // The member's own control group; null for none.
  std::shared_ptr<MemberCgroup> cgroup;
};

// How a process ended.
struct MemberExit {
  // The signal that ended it; 0 if it exited with `code`.
  int signal = 0;
  int code = 0;
  int64_t peak_memory_bytes = 0;
  // Whether the machine's count of out-of-memory kills rose during its life.
  bool out_of_memory_kill = false;
  // The last KiB of the log.
  std::string log_tail;
};

// The processes of gang members on this machine: starts them, reads what they
// write, stops them and reaps them.
//
// Life cycle: one thread forks the processes, owns them and serves them;
// destruction kills and reaps those that are left. The processes die with this
// one, even if this one is killed.
//
// Thread safety: all methods may be called from any thread, but not from the
// observer's methods.
class GangMembers {
 public:
  using Id = int64_t;

  // Called on the one thread, in order: first lines, then the end.
  class Observer {
   public:
    virtual ~Observer() = default;
    // A line of standard output without its newline, at most 1 MiB (longer ones
    // are cut). Returns false if the line is not an event and belongs in the
    // log.
    virtual bool OnLine(Id id, std::string_view line) = 0;
    virtual void OnLogGrown(Id id) = 0;
    // The process and everything that it started have been reaped, and all of
    // its output has been read.
    virtual void OnExit(Id id, const MemberExit& exit) = 0;
  };

  struct Options {
    // The time from SIGTERM to SIGKILL.
    absl::Duration grace = absl::Seconds(30);
    // The size at which the log of a process stops growing.
    int64_t max_log_bytes = int64_t{256} << 20;
    // The beginning of the mark (stray_processes.h) on all processes that
    // members start. If it is empty there is no mark, and a process that leaves
    // a member's process group outlives the member.
    std::string mark;
    // Whether this process adopts orphans, so that those without a mark are
    // found too. It must then have no children other than members.
    bool adopts_orphans = false;
  };

  static absl::StatusOr<std::unique_ptr<GangMembers>> Start(
      const Options& options, Observer* observer);
  ~GangMembers();

  // Starts a process and returns its process id. `id` is chosen by the caller
  // and must be new; the observer may be called for it before this returns.
  // NotFound, PermissionDenied, Unavailable: the program could not be started.
  absl::StatusOr<pid_t> Launch(Id id, const MemberCommand& command);

  // Sends SIGTERM now, and SIGKILL to the whole process group after the grace
  // period. Does nothing if the process has ended.
  void Stop(Id id);
  // Stops it with another grace period; the shortest one asked for holds.
  void Stop(Id id, absl::Duration grace);
  // Sends SIGKILL to the whole process group.
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
  // Kills what ended processes have left behind, and calls OnExit for those
  // that have left nothing. Returns true if something is still alive.
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
  // The processes, and whether the loop should end; used by the thread alone.
  std::map<Id, std::unique_ptr<Process>> processes_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_GANG_MEMBER_H_
