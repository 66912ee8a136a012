#ifndef COMERA_SERVER_API_PREPARE_JOB_H_
#define COMERA_SERVER_API_PREPARE_JOB_H_

#include "absl/status/statusor.h"
#include "comera/v1/training_service.pb.h"
#include "server/coordinator/job/prepared_job.h"

namespace comera::server {

// The job that `request` asks for, with its defaults filled in. InvalidArgument
// that names every bad field of the request.
absl::StatusOr<PreparedJob> PrepareJob(const v1::CreateJobRequest& request,
                                       Submitter submitter);

}  // namespace comera::server

#endif  // COMERA_SERVER_API_PREPARE_JOB_H_
