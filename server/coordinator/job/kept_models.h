// Models that nothing may delete: those that are pinned or have an alias.
#ifndef COMERA_SERVER_COORDINATOR_JOB_KEPT_MODELS_H_
#define COMERA_SERVER_COORDINATOR_JOB_KEPT_MODELS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/operation/operation.h"

namespace comera::server {

// FailedPrecondition: the model is pinned or has an alias; the message says
// which.
absl::Status CheckMayGo(const v1::Artifact& model);

// Whether one of the job's models must stay, and the job with it.
bool KeepsModels(const v1::Job& job);

// Pins the model of this name, or ends that, and returns its job. NotFound.
absl::StatusOr<JobEntry*> SetPinned(const std::string& model, bool pinned,
                                    JobTable* jobs, Operation* op);

// Lets the alias, a valid name, stand for the model, and for no other any more;
// returns the model's job. NotFound; ResourceExhausted: the model has too many.
absl::StatusOr<JobEntry*> SetAlias(const std::string& alias,
                                   const std::string& model, JobTable* jobs,
                                   Operation* op);

// Ends an alias, and returns the job of its model. NotFound.
absl::StatusOr<JobEntry*> RemoveAlias(const std::string& alias, JobTable* jobs,
                                      Operation* op);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_KEPT_MODELS_H_
