// Judges HTTP answers, and repeats requests with pauses between them.

#include "common/object_store/exchange_retry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/backoff.h"

namespace comera {
namespace {

// How often a pause checks whether the transfer was cancelled.
constexpr absl::Duration kLook = absl::Milliseconds(50);

}  // namespace

absl::Status CheckHttpCode(int code) {
  if (code >= 200 && code < 300) return absl::OkStatus();
  const std::string text = absl::StrCat("the server answers with HTTP ", code);
  if (code == 404 || code == 410) return absl::NotFoundError(text);
  if (code == 401 || code == 403) return absl::PermissionDeniedError(text);
  if (code == 412 || code == 416) {
    return absl::AbortedError("it has changed since it was first looked at");
  }
  if (code == 507) return absl::ResourceExhaustedError(text);
  // 501 would not go away.
  if ((code >= 500 && code != 501) || code == 408 || code == 425 ||
      code == 429) {
    return absl::UnavailableError(text);
  }
  return absl::FailedPreconditionError(text);
}

absl::Status RetryExchange(const RetryOptions& options,
                           const std::atomic<bool>& cancelled,
                           const std::function<absl::Status(bool*)>& try_once) {
  Backoff backoff(options.min_backoff, options.max_backoff);
  for (int failures = 0;;) {
    bool progress = false;
    const absl::Status status = try_once(&progress);
    if (!absl::IsUnavailable(status)) return status;
    if (progress) {
      failures = 0;
      backoff.Reset();
    }
    if (++failures >= options.tries) return status;
    absl::Duration pause = backoff.Next();
    while (pause > absl::ZeroDuration() && !cancelled) {
      absl::SleepFor(std::min(pause, kLook));
      pause -= kLook;
    }
    if (cancelled) return absl::CancelledError("not wanted any more");
  }
}

}  // namespace comera
