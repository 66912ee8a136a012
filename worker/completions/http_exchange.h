#ifndef COMERA_WORKER_COMPLETIONS_HTTP_EXCHANGE_H_
#define COMERA_WORKER_COMPLETIONS_HTTP_EXCHANGE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/completions/completion_answer.h"
#include "worker/predict/call_budget.h"

struct mg_connection;

namespace comera::worker {

// Finds the caller's token; empty if there is none and none is needed.
// Unauthenticated. PermissionDenied: a page of another site calls.
absl::StatusOr<std::string> TokenOfRequest(const mg_connection* connection);

// The body of a request.
struct JsonBody {
  std::string text;
  // What it has of the budget; small bodies need nothing of it.
  std::optional<CallBudget::Share> share;
};

// Reads the body: JSON of at most 4 MiB that arrives within half a minute.
// InvalidArgument: it is not announced as JSON. OutOfRange: it is too long.
// ResourceExhausted: `budget` has no room for it. DeadlineExceeded.
// Unavailable: the connection has ended.
absl::StatusOr<JsonBody> ReadJsonBody(mg_connection* connection,
                                      CallBudget* budget);

// Sends an answer of JSON, after which the connection is closed. A reader who
// takes minutes for it gets only a part.
void SendJson(mg_connection* connection, int status, absl::string_view json);
void SendError(mg_connection* connection, const HttpError& error);

// Server-sent events, after which the connection is closed.
//
// Not thread-safe.
class EventStream {
 public:
  // Soon after `deadline` the reader counts as gone, however slowly it reads.
  EventStream(mg_connection* connection, absl::Time deadline);

  // Returns false once the reader has gone.
  bool Send(absl::string_view data);
  // Says a word that readers ignore if none was said for a while, because only
  // writing shows that the reader has gone; returns false then.
  bool KeepAlive();
  // Whether the answer's status has been sent.
  bool begun() const { return begun_; }

 private:
  bool Write(absl::string_view text);

  mg_connection* const connection_;
  const absl::Time deadline_;
  bool begun_ = false;
  bool broken_ = false;
  absl::Time last_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_COMPLETIONS_HTTP_EXCHANGE_H_
