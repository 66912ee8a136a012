// Processes that ranks left behind.
#ifndef COMERA_WORKER_GANG_STRAY_PROCESSES_H_
#define COMERA_WORKER_GANG_STRAY_PROCESSES_H_

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace comera::worker {

// The variable that marks a rank's processes: what a rank starts inherits it,
// in whatever process group or session.
inline constexpr char kRankMark[] = "COMERA_RANK_MARK";

// Makes this process the parent of all descendants that lose theirs, so that
// they can be found and reaped.
void AdoptOrphans();

// Living processes whose mark begins with `mark`, except this one.
std::vector<pid_t> MarkedProcesses(const std::string& mark);

// Children of this process that are neither in `known` nor have a mark: they
// were adopted, and hide where they come from.
std::vector<pid_t> UnknownChildren(const std::set<pid_t>& known);

// SIGKILL to each, and reaps those that are children.
void KillAndReap(const std::vector<pid_t>& processes);

// Kills all processes whose mark begins with `mark`. DeadlineExceeded: some
// are still there after `timeout`.
absl::Status KillMarked(const std::string& mark, absl::Duration timeout);

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_STRAY_PROCESSES_H_
