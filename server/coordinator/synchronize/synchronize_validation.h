#ifndef COMERA_SERVER_COORDINATOR_SYNCHRONIZE_SYNCHRONIZE_VALIDATION_H_
#define COMERA_SERVER_COORDINATOR_SYNCHRONIZE_SYNCHRONIZE_VALIDATION_H_

#include "absl/status/status.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::server {

// Checks a worker's report. InvalidArgument, with the field's name: it is
// malformed or larger than any real report.
absl::Status ValidateSynchronize(const v1::SynchronizeRequest& request);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SYNCHRONIZE_SYNCHRONIZE_VALIDATION_H_
