#ifndef COMERA_WORKER_COMPLETIONS_COMPLETION_REQUEST_H_
#define COMERA_WORKER_COMPLETIONS_COMPLETION_REQUEST_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "comera/v1/predict_service.pb.h"

namespace comera::worker {

// A request of POST /v1/completions.
struct CompletionRequest {
  v1::GenerateRequest generate;
  // Whether the answer is a stream of events.
  bool stream = false;
  // Whether the answer begins with the prompt.
  bool echo = false;
  // Whether the stream's last event tells the tokens.
  bool include_usage = false;
};

// Reads a request in the form of OpenAI's API: model, prompt, max_tokens (16),
// temperature (1), top_p (1), stop, seed (drawn), stream, stream_options, echo;
// beside these top_k. Fields that would change the answer in ways that are not
// provided for may only have the value that changes nothing. InvalidArgument:
// "field: why".
absl::StatusOr<CompletionRequest> ParseCompletionRequest(
    absl::string_view body);

}  // namespace comera::worker

#endif  // COMERA_WORKER_COMPLETIONS_COMPLETION_REQUEST_H_
