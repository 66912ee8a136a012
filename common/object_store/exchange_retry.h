// What the answers to HTTP requests mean, and when a request is made again.
#ifndef COMERA_COMMON_OBJECT_STORE_EXCHANGE_RETRY_H_
#define COMERA_COMMON_OBJECT_STORE_EXCHANGE_RETRY_H_

#include <atomic>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace comera {

struct RetryOptions {
  // How many tries in a row may bring nothing.
  int tries = 4;
  // The pauses between them.
  absl::Duration min_backoff = absl::Milliseconds(200);
  absl::Duration max_backoff = absl::Seconds(5);
};

// OK for 2xx. NotFound. PermissionDenied. Aborted: the object is not the one
// that the request named. ResourceExhausted: the server has no room.
// Unavailable: a later try may succeed. FailedPrecondition: any other code.
absl::Status CheckHttpCode(int code);

// Calls `try_once` until it succeeds, fails with another error than
// Unavailable, or has failed `options.tries` times in a row; it sets its
// argument if it made progress. Cancelled: `cancelled` was set in a pause.
absl::Status RetryExchange(const RetryOptions& options,
                           const std::atomic<bool>& cancelled,
                           const std::function<absl::Status(bool*)>& try_once);

}  // namespace comera

#endif  // COMERA_COMMON_OBJECT_STORE_EXCHANGE_RETRY_H_
