// Finds and kills processes that members left behind.
#ifndef COMERA_WORKER_GANG_STRAY_PROCESSES_H_
#define COMERA_WORKER_GANG_STRAY_PROCESSES_H_

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace comera::worker {

// The environment variable that marks a member's processes: whatever a member
// starts inherits it, in any process group or session.
inline constexpr char kMemberMark[] = "COMERA_RANK_MARK";

// Makes this process the parent of all descendants that lose theirs, so that it
// can find and reap them.
void AdoptOrphans();

// Living processes whose mark begins with `mark`, except this one and those
// whose whole mark is in `spared`.
std::vector<pid_t> MarkedProcesses(const std::string& mark,
                                   const std::set<std::string>& spared = {});

// The children of this process that are not in `known` and whose mark does not
// begin with one of `marks`: adopted processes that hide where they come from,
// since a process may change its mark.
std::vector<pid_t> UnknownChildren(const std::set<pid_t>& known,
                                   const std::set<std::string>& marks);

// Sends SIGKILL to each process, and reaps those that are children.
void KillAndReap(const std::vector<pid_t>& processes);

// Kills all processes whose mark begins with `mark`, but for those whose whole
// mark is in `spared`. DeadlineExceeded: some are still alive after `timeout`.
absl::Status KillMarked(const std::string& mark, absl::Duration timeout,
                        const std::set<std::string>& spared = {});

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_STRAY_PROCESSES_H_
