#ifndef COMERA_SERVER_HOST_JOB_ADMISSION_H_
#define COMERA_SERVER_HOST_JOB_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "server/rpc/user_quota.h"
#include "server/view/job_directory.h"

namespace comera::server {

// Says whether a user may have another job. It counts what the directory
// shows, and what it has admitted that is not shown yet: hundreds of requests
// may be on their way into the store at once. Not thread-safe.
//
//   RETURN_IF_ERROR(admission.Admit(user, bytes, quota));
//   ... make the job durable, or fail to ...
//   admission.Settle(user, bytes);
class JobAdmission {
 public:
  // `max_queued` jobs of all users may wait. The directory must outlive this.
  JobAdmission(const JobDirectory* jobs, size_t max_queued)
      : jobs_(jobs), max_queued_(max_queued) {}

  // A new job whose specification has so many bytes, of a user whose sweeps
  // have `sweep_bytes` of specifications. ResourceExhausted.
  absl::Status Admit(const std::string& user, size_t spec_bytes,
                     const UserQuota& quota, int64_t sweep_bytes);
  // The job is in the directory now, or will never be.
  void Settle(const std::string& user, size_t spec_bytes);

  // The same for a job that the user has already, and that is to wait again.
  absl::Status AdmitQueued(const std::string& user, const UserQuota& quota);
  void SettleQueued(const std::string& user);

 private:
  // Jobs on their way into the directory.
  struct Pending {
    int64_t queued = 0;
    int64_t jobs = 0;
    int64_t spec_bytes = 0;
  };

  absl::Status CheckQueued(const std::string& user,
                           const UserQuota& quota) const;
  Pending PendingOf(const std::string& user) const;
  void Forget(const std::string& user);

  const JobDirectory* const jobs_;
  const size_t max_queued_;
  std::map<std::string, Pending> pending_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_JOB_ADMISSION_H_
