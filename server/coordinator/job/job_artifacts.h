// Files that belong to jobs: uploads of an attempt, models of finished jobs,
// and logs.
#ifndef COMERA_SERVER_COORDINATOR_JOB_JOB_ARTIFACTS_H_
#define COMERA_SERVER_COORDINATOR_JOB_JOB_ARTIFACTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/operation/operation.h"

namespace comera::server {

// The job whose current attempt may upload this file from `worker` (empty: one
// that does not say its name, which only workers with a token for any worker
// need not). NotFound; Aborted: another attempt; PermissionDenied: its member 0
// runs elsewhere; FailedPrecondition: the attempt has uploaded other contents of
// that file; InvalidArgument; ResourceExhausted.
absl::StatusOr<const JobEntry*> FindUploader(
    const v1::UploadArtifactHeader& header, const std::string& worker,
    const JobTable& jobs);

// Removes a finished job's model of this name, and returns the job. NotFound;
// FailedPrecondition: the job has not finished.
absl::StatusOr<JobEntry*> RemoveModel(const std::string& name, JobTable* jobs,
                                      Operation* op);

// Whether the log chunk, which `worker` brings, is one of a member that the job
// has there. Late ones of earlier attempts, whose members are known no more, may
// come from any worker: a log only grows.
bool IsOwnLog(const v1::LogChunk& chunk, const std::string& worker,
              const JobTable& jobs);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_JOB_ARTIFACTS_H_
