#ifndef COMERA_WORKER_GANG_GANG_MEMBER_H_
#define COMERA_WORKER_GANG_GANG_MEMBER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/out_of_memory.h"
#include "worker/gang/file_rules.h"
#include "worker/gang/member_cgroup.h"
#include "worker/gang/member_user.h"

namespace comera::worker {

// The command that starts a member, and the limits under which it runs.
struct MemberCommand {
  std::vector<std::string> arguments;
  // Additions to its environment, as KEY=VALUE.
  std::vector<std::string> environment;
  // The file that receives standard output, whose lines are events; emptied
  // first. Its folder must exist, and be closed to the member's user.
  std::string events_path;
  // The file to which standard error, and lines of standard output that are not
  // events, are appended. Its folder must exist.
  std::string log_path;
  // Whether the process goes on when this one ends.
  bool survives = false;
  // The user to run as; unset means this process's own user.
  std::optional<MemberUser> user;
  // The member's own control group; null for none.
  std::shared_ptr<MemberCgroup> cgroup;
  // The files that it may use; null: those of its user.
  std::shared_ptr<FileRules> file_rules;
};

// A member that an earlier daemon started.
struct AdoptedMember {
  pid_t pid = 0;
  // Readable once the process has ended; -1: it has. Closed by GangMembers.
  int pidfd = -1;
  std::string events_path;
  // Where in the events reading begins; the end of a line.
  int64_t events_offset = 0;
  std::string log_path;
  std::shared_ptr<MemberCgroup> cgroup;
};

// How a process ended.
struct MemberExit {
  // False: it was not a child, and did not write how it ends.
  bool known = true;
  // The signal that ended it; 0 if it exited with `code`.
  int signal = 0;
  int code = 0;
  int64_t peak_memory_bytes = 0;
  // Whether the machine's count of out-of-memory kills rose during its life.
  bool out_of_memory_kill = false;
  // The last KiB of the log.
  std::string log_tail;
};

// The processes of gang members on this machine: starts them, or takes over
// those of an earlier daemon, reads what they write, stops them and reaps them.
//
// Members write to files, which need no reader: so a member that survives this
// process goes on undisturbed, and the next daemon reads what it wrote.
//
// Life cycle: one thread forks the processes, owns them and serves them;
// destruction kills and reaps those that are left, unless Leave was called.
// Processes that do not survive die with this one, even if it is killed.
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
    // are cut), and the place in the file where the next one begins. Returns
    // false if the line is not an event and belongs in the log.
    virtual bool OnLine(Id id, std::string_view line, int64_t end) = 0;
    virtual void OnLogGrown(Id id) = 0;
    // The process and everything that it started have been reaped, and all of
    // its output has been read.
    virtual void OnExit(Id id, const MemberExit& exit) = 0;
  };

  struct Options {
    // The time from SIGTERM to SIGKILL.
    absl::Duration grace = absl::Seconds(30);
    // The size to which the log of a process is cut when it is larger.
    int64_t max_log_bytes = int64_t{256} << 20;
    // The beginning of the mark (stray_processes.h) on all processes that
    // members start. If it is empty there is no mark, and a process that leaves
    // a member's process group outlives the member.
    std::string mark;
    // Whether this process adopts orphans, so that those that have taken their
    // mark off are found too. It must then have no children other than members
    // and those whose marks begin with one of `other_marks`.
    bool adopts_orphans = false;
    std::set<std::string> other_marks;
    // The machine's count of out-of-memory kills.
    std::function<int64_t()> out_of_memory_kills = OutOfMemoryKills;
  };

  static absl::StatusOr<std::unique_ptr<GangMembers>> Start(
      const Options& options, Observer* observer);
  ~GangMembers();

  // Starts a process and returns its process id. `id` is chosen by the caller
  // and must be new; the observer may be called for it before this returns.
  // NotFound, PermissionDenied, Unavailable: the program could not be started.
  absl::StatusOr<pid_t> Launch(Id id, const MemberCommand& command);

  // The mark on the processes of a member, and all that they start.
  std::string MarkOf(Id id) const { return MarkOf(options_.mark, id); }
  static std::string MarkOf(const std::string& beginning, Id id);

  // Takes over a process that is not a child of this one. Its mark must be the
  // one that `id` gives here. The observer gets its lines from the offset on.
  void Adopt(Id id, AdoptedMember member);

  // Ends the thread and leaves the processes that survive as they are; the
  // others are killed. Only destruction may follow.
  void Leave();

  // Lets go of the disk space of events before `offset`, which no daemon will
  // read again.
  void ForgetEvents(Id id, int64_t offset);

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
  void AdoptHere(Id id, AdoptedMember member);
  int KillOverdue();
  // Kills what ended processes have left behind, and calls OnExit for those
  // that have left nothing. Returns true if something is still alive.
  bool FinishEnded();
  // Sends the signal to the process group, unless its number may be another's.
  static void Signal(const Process& process, int signal);
  // Reads what the process has written; returns whether there may be more.
  bool ReadLines(Process& process);
  void HandleLine(Process& process, std::string_view line);
  void AppendLog(Process& process, std::string_view text);
  void PollLog(Process& process);
  // The end of what was appended to the log, also of what was cut off.
  std::string LogTail(const Process& process) const;
  // Whether a process that was adopted and has ended left events that are still
  // to be read.
  static bool HasRest(Process& process);
  // Ends the thread; processes that are left must survive or have been killed.
  void End(bool leave);
  void Reap(Process& process);
  // Fills in how the process ended. Returns false if it has not ended.
  static bool ReadExit(Process& process, MemberExit* exit);

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
