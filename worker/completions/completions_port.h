#ifndef COMERA_WORKER_COMPLETIONS_COMPLETIONS_PORT_H_
#define COMERA_WORKER_COMPLETIONS_COMPLETIONS_PORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/completions/completion_request.h"
#include "worker/predict/call_budget.h"
#include "worker/predict/text_models.h"

struct mg_connection;
struct mg_context;

namespace comera::worker {

// Serves POST /v1/completions and GET /v1/models over HTTP, in the form of
// OpenAI's API, from Start() until destruction, on threads of its own.
//
// Callers are judged as those of PredictService: by their token, and without
// one only on this machine. A call without a token must not come from a page of
// another site: its Host names this machine, and its Origin is that host.
class CompletionsPort {
 public:
  struct Options {
    // host:port with a numeric host; port 0 means any free one.
    std::string listen;
    // Whether to serve other machines, although nothing is encrypted.
    bool insecure = false;
    // The limits of texts in one piece and of streams.
    absl::Duration most_time = absl::Minutes(5);
    absl::Duration most_stream_time = absl::Hours(1);
  };

  // `models` must outlive it. InvalidArgument: `listen` is malformed, or means
  // other machines without `insecure`. Unavailable: the port cannot be opened.
  static absl::StatusOr<std::unique_ptr<CompletionsPort>> Start(
      const Options& options, TextModels* models);
  // Calls must be ending, see ServedModels::Stop: waits for them.
  ~CompletionsPort();

  // The address, with the port that was bound.
  const std::string& address() const { return address_; }

 private:
  CompletionsPort(const Options& options, TextModels* models);
  // Serves one request, whatever it is.
  void Handle(mg_connection* connection);
  absl::StatusOr<CompletionRequest> ReadRequest(mg_connection* connection);
  absl::Status Complete(mg_connection* connection, const std::string& token);
  absl::Status List(mg_connection* connection, const std::string& token);

  const Options options_;
  TextModels* const models_;
  // What bodies that are being read may hold.
  CallBudget bodies_;
  std::string address_;
  mg_context* context_ = nullptr;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_COMPLETIONS_COMPLETIONS_PORT_H_
