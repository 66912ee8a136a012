#ifndef COMERA_SERVER_COORDINATOR_LIFECYCLE_FAILURE_RECORDER_H_
#define COMERA_SERVER_COORDINATOR_LIFECYCLE_FAILURE_RECORDER_H_

#include <cstdint>
#include <string>

#include "comera/v1/job.pb.h"
#include "server/coordinator/job/job_entry.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/worker/worker_exclusion.h"

namespace comera::server {

// Records the failures of running attempts: in the attempt, as an event of the
// job, and against the worker. Not thread-safe.
class FailureRecorder {
 public:
  // A failure of the whole gang.
  static constexpr int32_t kWholeGang = -1;

  // `exclusion` must outlive it.
  explicit FailureRecorder(WorkerExclusion* exclusion)
      : exclusion_(exclusion) {}

  void Record(JobEntry& entry, v1::Failure failure, Operation* op);
  void Record(JobEntry& entry, v1::FailureClass failure_class, int32_t member,
              const std::string& message, Operation* op);

 private:
  WorkerExclusion* const exclusion_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_LIFECYCLE_FAILURE_RECORDER_H_
