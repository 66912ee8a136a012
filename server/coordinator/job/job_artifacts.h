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

// The job whose current attempt may upload this file. NotFound; Aborted:
// another attempt; InvalidArgument; ResourceExhausted.
absl::StatusOr<const JobEntry*> FindUploader(
    const v1::UploadArtifactHeader& header, const JobTable& jobs);

// Removes a finished job's model of this name, and returns the job. NotFound;
// FailedPrecondition: the job has not finished.
absl::StatusOr<JobEntry*> RemoveModel(const std::string& name, JobTable* jobs,
                                      Operation* op);

// Whether the log chunk is one of a member that the job has, or had.
bool IsOwnLog(const v1::LogChunk& chunk, const JobTable& jobs);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_JOB_ARTIFACTS_H_
