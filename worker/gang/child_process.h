#ifndef COMERA_WORKER_GANG_CHILD_PROCESS_H_
#define COMERA_WORKER_GANG_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/gang/member_user.h"

namespace comera::worker {

// A started child; the caller closes the descriptors and reaps it.
struct ChildProcess {
  pid_t pid = -1;
  int pidfd = -1;  // Readable once the process has ended.
  // Read ends of its standard output and error; non-blocking.
  int out = -1;
  int err = -1;
};

// What a child is kept in.
struct ChildConfinement {
  // Null: this process's own user.
  const MemberUser* user = nullptr;
  // Descriptor of a control group's cgroup.procs; -1: none.
  int cgroup_procs = -1;
  // Becomes its standard input; -1: nothing is on it.
  int standard_input = -1;
  // Of its data segments, bytes; 0: no limit.
  int64_t memory_bytes = 0;
};

// Starts `arguments[0]` in a process group of its own, with no way to gain
// rights by the programs that it starts. Its environment is MemberEnvironment()
// of this process's and `environment` (KEY=VALUE). The kernel kills the child
// when the thread that calls this ends: call it from one that lives as long as
// the process.
//
// Errors: NotFound, PermissionDenied or Unavailable with the text of exec's
// errno.
absl::StatusOr<ChildProcess> StartChild(
    const std::vector<std::string>& arguments,
    const std::vector<std::string>& environment,
    const ChildConfinement& confinement = ChildConfinement());

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_CHILD_PROCESS_H_
