// Checks of fields that many requests have.
#ifndef COMERA_SERVER_RPC_REQUEST_CHECKS_H_
#define COMERA_SERVER_RPC_REQUEST_CHECKS_H_

#include <string>

#include "absl/status/status.h"

namespace comera::server {

// All of these: InvalidArgument that names the field.
absl::Status CheckRequestId(const std::string& request_id);
absl::Status CheckReason(const std::string& reason);
// The request's `name` is to be jobs/{job}.
absl::Status CheckJobName(const std::string& name);

}  // namespace comera::server

#endif  // COMERA_SERVER_RPC_REQUEST_CHECKS_H_
