#ifndef COMERA_WORKER_COMPLETIONS_COMPLETIONS_PORT_H_
#define COMERA_WORKER_COMPLETIONS_COMPLETIONS_PORT_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/http_server.h"
#include "common/http/tls_files.h"
#include "worker/predict/call_threads.h"
#include "worker/predict/text_models.h"

namespace comera::worker {

// Serves POST /v1/completions and GET /v1/models over HTTP, in the form of
// OpenAI's API, from Start() until destruction, on threads of its own.
//
// Callers are judged as those of PredictService: by their ticket, and without
// one only on this machine. A call without a ticket must not come from a page of
// another site: its Host names this machine, and its Origin is that host.
class CompletionsPort {
 public:
  struct Options {
    // host:port; port 0 means any free one.
    std::string listen;
    // The certificate that the port shows; without one nothing is encrypted.
    // Its `flags` are set by Start().
    TlsFiles tls;
    // Whether to serve other machines although nothing is encrypted.
    bool insecure = false;
    // The limits of texts in one piece and of streams, from the request on.
    absl::Duration most_time = absl::Minutes(5);
    absl::Duration most_stream_time = absl::Hours(1);
  };

  // `models` must outlive it. InvalidArgument: `listen` is malformed, or means
  // other machines without `tls` or `insecure`; files of `tls` are no good.
  // Unavailable: the port cannot be opened.
  static absl::StatusOr<std::unique_ptr<CompletionsPort>> Start(
      const Options& options, TextModels* models);
  // Calls must be ending, see ServedModels::Stop: waits for them.
  ~CompletionsPort();

  // The address, with the port that was bound.
  const std::string& address() const { return server_->address(); }

 private:
  // A request on its way to its answer.
  struct Call;

  CompletionsPort(const Options& options, TextModels* models);
  // Takes a request, whatever it is; does not block.
  void Handle(std::shared_ptr<HttpExchange> exchange);
  absl::Status Complete(const Call& call);
  absl::Status List(const Call& call);

  const Options options_;
  TextModels* const models_;
  // The server, which calls the threads, outlives them, because their calls
  // hold its exchanges; it is shut down before they end.
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<CallThreads> threads_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_COMPLETIONS_COMPLETIONS_PORT_H_
