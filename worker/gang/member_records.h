#ifndef COMERA_WORKER_GANG_MEMBER_RECORDS_H_
#define COMERA_WORKER_GANG_MEMBER_RECORDS_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace comera::worker {

// Notes on disk of the rank processes that run, so that a daemon that starts
// after a crash finds what its predecessor may have left behind. A process is
// known by its start time and program, so that a reused process id is no
// reason to kill a stranger.
class MemberRecords {
 public:
  explicit MemberRecords(std::string folder) : folder_(std::move(folder)) {}

  // Unavailable, ResourceExhausted: not written.
  absl::Status Add(pid_t pid) const;
  void Remove(pid_t pid) const;

  // Kills the recorded processes that still run, with their groups, and waits
  // for their end. DeadlineExceeded: one did not end within `timeout`.
  // Unavailable: no descriptors.
  absl::Status KillLeftovers(absl::Duration timeout) const;

 private:
  std::string folder_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_RECORDS_H_
