#ifndef COMERA_WORKER_PREDICT_CALLER_TOKEN_H_
#define COMERA_WORKER_PREDICT_CALLER_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"

namespace comera::worker {

// The token of a call; empty if it has none and needs none. `peer` is gRPC's
// name of the caller. Unauthenticated: a token is missing or malformed.
absl::StatusOr<std::string> TokenOfCall(const std::string& authorization,
                                        const std::string& peer,
                                        bool has_certificate);

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_CALLER_TOKEN_H_
