// Checks a request for a job and fills in its defaults, once for all that
// follows.
#include "server/api/prepare_job.h"

#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "proto/validation/job_validation.h"
#include "server/rpc/request_checks.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {

absl::StatusOr<PreparedJob> PrepareJob(const v1::CreateJobRequest& request,
                                       Submitter submitter) {
  RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  if (!request.has_spec()) return InvalidField("spec", "missing");
  // Before anything is done with it.
  RETURN_IF_ERROR(CheckSpecSize("spec", request.spec().ByteSizeLong()));
  v1::JobSpec spec;
  const std::vector<FieldViolation> violations =
      ValidateJobSpec(request.spec(), &spec);
  if (!violations.empty()) return InvalidSpec(violations);
  // With its defaults: this is what is stored.
  RETURN_IF_ERROR(CheckSpecSize("spec", spec.ByteSizeLong()));
  return PreparedJob(std::move(spec), request.request_id(),
                     std::move(submitter));
}

}  // namespace comera::server
