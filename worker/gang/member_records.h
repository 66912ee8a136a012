#ifndef COMERA_WORKER_GANG_MEMBER_RECORDS_H_
#define COMERA_WORKER_GANG_MEMBER_RECORDS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/gang/member_record.pb.h"

namespace comera::worker {

// Records on disk of the members that a worker has, so that a daemon that
// starts after a crash or a restart finds what its predecessor left. A record
// identifies a process by its start time and program, so that a reused process
// id never gets a stranger taken over or killed.
class MemberRecords {
 public:
  explicit MemberRecords(std::string folder) : folder_(std::move(folder)) {}

  // Writes the record of `record.id()`, over the one that is there.
  // Unavailable, ResourceExhausted: it was not written.
  absl::Status Write(const MemberRecord& record) const;
  void Remove(int64_t id) const;

  // All records, by id. Those that cannot be read, or whose id is not that of
  // their file, are left out.
  std::vector<MemberRecord> Load() const;

  // Whether the next daemon on this machine goes on with the member: it
  // survives its daemon, and the machine was not booted since.
  static bool CanBeAdopted(const MemberRecord& record);
  // The incarnation that the next daemon goes on as: that of the members that
  // can be adopted or, without any, the one that was kept since the machine was
  // booted. Empty if there is none.
  std::string KeptIncarnation() const;
  // Keeps it for the next daemon, also while no member has a record: members
  // that wait for their data are known to the coordinator already. Errors are
  // those of Write; nothing is kept then.
  absl::Status KeepIncarnation(const std::string& incarnation) const;
  void ForgetIncarnation() const;

  // Sets the record's process, its identity, and the boot of the machine.
  static void Identify(pid_t pid, MemberRecord* record);
  // A pidfd of the recorded process, which the caller closes; -1 if it has
  // ended. Unavailable: no file descriptor is free.
  static absl::StatusOr<int> Open(const MemberRecord& record);
  // Kills the recorded process if it still runs, with its process group, and
  // waits for its end. DeadlineExceeded: that takes longer than `timeout`.
  // Unavailable: no file descriptor is free.
  static absl::Status Kill(const MemberRecord& record, absl::Duration timeout);

 private:
  std::string folder_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_RECORDS_H_
