#ifndef COMERA_WORKER_GANG_MEMBER_CGROUP_H_
#define COMERA_WORKER_GANG_MEMBER_CGROUP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace comera::worker {

// A control group (cgroup v2) of one rank: what the rank starts stays in it,
// whatever it does, and is killed with it. The destructor removes it.
class MemberCgroup {
 public:
  ~MemberCgroup();
  MemberCgroup(const MemberCgroup&) = delete;
  MemberCgroup& operator=(const MemberCgroup&) = delete;

  // A process that writes "0" there joins.
  int procs() const { return procs_; }
  // SIGKILL to all that is in it; true once nothing is, within `timeout`.
  bool KillAll(absl::Duration timeout);
  bool Empty() const;
  const std::string& path() const { return path_; }

 private:
  friend class MemberCgroups;
  MemberCgroup(std::string path, int procs)
      : path_(std::move(path)), procs_(procs) {}

  const std::string path_;
  const int procs_;
};

// Makes them. Thread-safe.
class MemberCgroups {
 public:
  struct Limits {
    // 0: none.
    int64_t memory_bytes = 0;
    int64_t processes = 0;
    int cores = 0;
  };

  // Below the group that this process is in, or below `parent`, for tests.
  // Takes over the controllers for memory, processes and CPU as far as they are
  // there; groups without them still kill. FailedPrecondition, with the reason:
  // there is no cgroup v2 that this process may write to.
  static absl::StatusOr<std::unique_ptr<MemberCgroups>> Create(
      const std::string& parent = "");
  ~MemberCgroups();

  // A new one; `name` must be unique. Unavailable.
  absl::StatusOr<std::shared_ptr<MemberCgroup>> Make(
      const std::string& name, const Limits& limits) const;
  // E.g. "memory pids"; empty: none can be limited.
  const std::string& controllers() const { return controllers_; }

 private:
  MemberCgroups(std::string folder, std::string controllers)
      : folder_(std::move(folder)), controllers_(std::move(controllers)) {}

  const std::string folder_;
  const std::string controllers_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_CGROUP_H_
