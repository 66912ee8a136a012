// Files that belong to jobs: uploads of an attempt, models of finished jobs,
// and logs.
#ifndef COMERA_SERVER_COORDINATOR_JOB_JOB_ARTIFACTS_H_
#define COMERA_SERVER_COORDINATOR_JOB_JOB_ARTIFACTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/operation/operation.h"

namespace comera::server {

// The job whose current attempt may upload this file from `worker` (empty: one
// that does not say its name, which only a server without tokens, or with
// --allow_unbound_worker_tokens, lets it leave out). NotFound; Aborted: another attempt; PermissionDenied: its member 0
// runs elsewhere; FailedPrecondition: the attempt has uploaded other contents
// of that file; InvalidArgument; ResourceExhausted.
absl::StatusOr<const JobEntry*> FindUploader(
    const v1::UploadArtifactHeader& header, const std::string& worker,
    const JobTable& jobs);

// Removes a finished job's model of this name, and returns the job. NotFound;
// FailedPrecondition: the job has not finished, or the model is kept
// (kept_models.h).
absl::StatusOr<JobEntry*> RemoveModel(const std::string& name, JobTable* jobs,
                                      Operation* op);

// Whether `worker` may bring the log chunk: the member that it is of runs there,
// or ran there in an attempt that has just ended (Attempt::kLateLogs).
bool IsOwnLog(const v1::LogChunk& chunk, const std::string& worker,
              absl::Time now, const JobTable& jobs);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_JOB_ARTIFACTS_H_
