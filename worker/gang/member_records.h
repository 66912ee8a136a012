#ifndef COMERA_WORKER_GANG_MEMBER_RECORDS_H_
#define COMERA_WORKER_GANG_MEMBER_RECORDS_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace comera::worker {

// Records on disk of the members that run, so that a daemon that starts after a
// crash finds what its predecessor may have left behind. A record identifies a
// process by its start time and program, so that a reused process id never gets
// a stranger killed.
class MemberRecords {
 public:
  explicit MemberRecords(std::string folder) : folder_(std::move(folder)) {}

  // Unavailable, ResourceExhausted: the record was not written.
  absl::Status Add(pid_t pid) const;
  void Remove(pid_t pid) const;

  // Kills the recorded processes that still run, with their process groups, and
  // waits for their end. DeadlineExceeded: one did not end within `timeout`.
  // Unavailable: no file descriptor is free.
  absl::Status KillLeftovers(absl::Duration timeout) const;

 private:
  std::string folder_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_RECORDS_H_
