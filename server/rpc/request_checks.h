// Checks of fields that many requests have.
#ifndef COMERA_SERVER_RPC_REQUEST_CHECKS_H_
#define COMERA_SERVER_RPC_REQUEST_CHECKS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace comera::server {

// All of these: InvalidArgument that names the field.
absl::Status CheckRequestId(const std::string& request_id);
absl::Status CheckReason(const std::string& reason);
// A specification is kept for weeks, in memory and in the store: at most 64 KiB
// with its defaults.
absl::Status CheckSpecSize(const std::string& field, size_t bytes);
// The same of a sweep, whose values may be those of hundreds of runs: at most
// 1 MiB.
absl::Status CheckSweepSize(const std::string& field, size_t bytes);
// The request's `name` is to be jobs/{job}.
absl::Status CheckJobName(const std::string& name);

}  // namespace comera::server

#endif  // COMERA_SERVER_RPC_REQUEST_CHECKS_H_
