// Errors as the API promises them: a status with google.rpc details.
#ifndef COMERA_SERVER_RPC_RPC_ERRORS_H_
#define COMERA_SERVER_RPC_RPC_ERRORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "proto/validation/job_validation.h"

namespace comera::server {

// InvalidArgument that names every bad field. Fields are relative to the spec.
absl::Status InvalidSpec(const std::vector<FieldViolation>& violations);

// InvalidArgument about one field of the request.
absl::Status InvalidField(const std::string& field,
                          const std::string& description);

// Unavailable, of a coordinator that only reads: ErrorInfo's reason is
// NOT_LEADER, and its metadata has `leader`, the address to call instead, if
// that is known.
absl::Status NotLeader(const std::string& leader);
// ResourceExhausted with RetryInfo: the same call may succeed after `delay`.
absl::Status TryAgainAfter(absl::Duration delay, const std::string& message);

// With ErrorInfo always, with RetryInfo for UNAVAILABLE, and with BadRequest
// for an InvalidArgument of the form "field: description".
grpc::Status ToRpcStatus(const absl::Status& status);

}  // namespace comera::server

#endif  // COMERA_SERVER_RPC_RPC_ERRORS_H_
