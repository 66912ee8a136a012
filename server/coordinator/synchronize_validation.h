#ifndef COMERA_SERVER_COORDINATOR_SYNCHRONIZE_VALIDATION_H_
#define COMERA_SERVER_COORDINATOR_SYNCHRONIZE_VALIDATION_H_

#include "absl/status/status.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::server {

// InvalidArgument with the field's name if a worker's report is malformed or
// beyond all limits.
absl::Status ValidateSynchronize(const v1::SynchronizeRequest& request);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SYNCHRONIZE_VALIDATION_H_
