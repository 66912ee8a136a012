#ifndef COMERA_WORKER_GANG_MEMBER_CGROUP_H_
#define COMERA_WORKER_GANG_MEMBER_CGROUP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace comera::worker {

// The control group (cgroup v2) of one member. Every process that the member
// starts stays in it and is killed with it. The destructor removes the group.
class MemberCgroup {
 public:
  ~MemberCgroup();
  MemberCgroup(const MemberCgroup&) = delete;
  MemberCgroup& operator=(const MemberCgroup&) = delete;

  // A descriptor of the group's cgroup.procs: a process that writes "0" joins.
  int procs() const { return procs_; }
  // Sends SIGKILL to every process in the group. Returns true once the group is
  // empty, false if it is not within `timeout`.
  bool KillAll(absl::Duration timeout);
  bool Empty() const;
  // Leaves the group to another daemon: the destructor does not remove it.
  void Keep() { keep_ = true; }
  const std::string& path() const { return path_; }

 private:
  friend class MemberCgroups;
  MemberCgroup(std::string path, int procs)
      : path_(std::move(path)), procs_(procs) {}

  const std::string path_;
  const int procs_;
  bool keep_ = false;
};

// Makes control groups for members. Thread-safe.
class MemberCgroups {
 public:
  // The limits of one group; 0 means no limit.
  struct Limits {
    int64_t memory_bytes = 0;
    int64_t processes = 0;
    int cores = 0;
  };

  // Makes groups below `parent`, which only tests name; by default below the
  // group that this process is in. Enables the memory, process and CPU
  // controllers as far as they exist; groups without them can still be killed.
  // FailedPrecondition, with the reason: there is no cgroup v2 that this
  // process may write to.
  //
  // Where members outlive the daemon, the group of this process gets no
  // controllers, because a group that has some can hold no process, the next
  // daemon among them. Only below a group called kDaemonGroup, which the system
  // made for the daemon alone, are limits possible then.
  static absl::StatusOr<std::unique_ptr<MemberCgroups>> Create(
      const std::string& parent = "", bool members_survive = false);
  static constexpr char kDaemonGroup[] = "comera-daemon";
  ~MemberCgroups();

  // Makes a group; `name` must be unique. Unavailable: the system refused.
  absl::StatusOr<std::shared_ptr<MemberCgroup>> Make(
      const std::string& name, const Limits& limits) const;
  // Takes over the group of an earlier daemon's member. NotFound: it is gone.
  static absl::StatusOr<std::shared_ptr<MemberCgroup>> Adopt(
      const std::string& path);
  // The controllers that can limit groups, e.g. "memory pids"; may be empty.
  const std::string& controllers() const { return controllers_; }

 private:
  MemberCgroups(std::string folder, std::string controllers)
      : folder_(std::move(folder)), controllers_(std::move(controllers)) {}

  const std::string folder_;
  const std::string controllers_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_CGROUP_H_
