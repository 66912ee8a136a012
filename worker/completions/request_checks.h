#ifndef COMERA_WORKER_COMPLETIONS_REQUEST_CHECKS_H_
#define COMERA_WORKER_COMPLETIONS_REQUEST_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/http/http_message.h"

namespace comera::worker {

// Finds the caller's ticket; empty if there is none and none is needed.
// Unauthenticated. PermissionDenied: a page of another site calls.
absl::StatusOr<std::string> TicketOfRequest(const HttpRequest& request);

// Checks that the body is announced as JSON: InvalidArgument.
absl::Status CheckJsonBody(const HttpRequest& request);

}  // namespace comera::worker

#endif  // COMERA_WORKER_COMPLETIONS_REQUEST_CHECKS_H_
