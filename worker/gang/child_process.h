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

// A started child. The caller closes the descriptors and reaps the process.
struct ChildProcess {
  pid_t pid = -1;
  int pidfd = -1;  // Readable once the process has ended.
  // The read ends of its standard output and error, non-blocking; -1 where the
  // caller named a file.
  int out = -1;
  int err = -1;
};

// The limits under which a child runs.
struct ChildConfinement {
  // The user to run as; null means this process's own user.
  const MemberUser* user = nullptr;
  // A descriptor of a control group's cgroup.procs; -1 for no group.
  int cgroup_procs = -1;
  // The descriptor that becomes its standard input; -1 for an empty input.
  int standard_input = -1;
  // The descriptors that become its standard output and error; -1 for pipes.
  int standard_output = -1;
  int standard_error = -1;
  // A descriptor of FileRules, the files that it may use; -1: those of its
  // user.
  int file_rules = -1;
  // Whether it goes on when this process ends.
  bool survives = false;
  // The limit of its data segments in bytes; 0 for no limit.
  int64_t memory_bytes = 0;
};

// Starts `arguments[0]` in a process group of its own, unable to gain rights
// from the programs that it starts. Its environment is `environment`
// (KEY=VALUE) and what MemberEnvironment() lets through from this process.
// Unless it survives, the kernel kills the child when the calling thread ends,
// so call this from a thread that lives as long as the process.
//
// NotFound, PermissionDenied, Unavailable: exec failed; the message has the
// text of its errno.
absl::StatusOr<ChildProcess> StartChild(
    const std::vector<std::string>& arguments,
    const std::vector<std::string>& environment,
    const ChildConfinement& confinement = ChildConfinement());

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_CHILD_PROCESS_H_
