// Opens the HTTP port of completions and answers its calls.

#include "worker/completions/completions_port.h"

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/loopback.h"
#include "common/status_macros.h"
#include "worker/completions/completion_answer.h"
#include "worker/completions/completion_request.h"
#include "worker/completions/event_stream.h"
#include "worker/completions/request_checks.h"

namespace comera::worker {
namespace {

// How long after its deadline a stream may still tell that its time is over.
constexpr absl::Duration kLastWords = absl::Seconds(5);
constexpr absl::Duration kListTime = absl::Seconds(30);
constexpr size_t kMostPath = 100;

constexpr char kCompletions[] = "/v1/completions";
constexpr char kModels[] = "/v1/models";

// Calls that are answered at once, each on a thread, and that may wait.
constexpr size_t kThreads = 16;
constexpr size_t kWaiting = 32;

std::string NewId() {
  std::random_device random;
  return absl::StrFormat("cmpl-%08x%08x%08x", random(), random(), random());
}

HttpError NoSuch(int status, const std::string& message,
                 const std::string& code) {
  HttpError error;
  error.status = status;
  error.type = "invalid_request_error";
  error.code = code;
  error.message = message;
  return error;
}

HttpResponse JsonResponse(int status, std::string json) {
  HttpResponse response =
      MakeResponse(status, "application/json", std::move(json));
  response.headers.emplace_back("Cache-Control", "no-store");
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  if (status == 401) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return response;
}

HttpResponse ErrorResponse(const HttpError& error) {
  return JsonResponse(error.status, ErrorJson(error));
}

// The answer to what the server refuses by itself.
HttpResponse Refusal(int code, const std::string& reason) {
  switch (code) {
    case 413:
      return ErrorResponse(ErrorOf(absl::OutOfRangeError(reason)));
    case 503:
      return ErrorResponse(ErrorOf(absl::ResourceExhaustedError(reason)));
    default:
      return ErrorResponse(NoSuch(code, reason, "bad_request"));
  }
}

absl::Status CheckOptions(const CompletionsPort::Options& options) {
  if (!options.tls.enabled() && !options.tls.key.empty()) {
    return absl::InvalidArgumentError(
        "completions_tls_cert: missing, completions_tls_key needs it");
  }
  const std::string& listen = options.listen;
  if (!options.tls.enabled() && !options.insecure &&
      !IsLoopback(listen.substr(0, listen.rfind(':')))) {
    return absl::InvalidArgumentError(
        absl::StrCat("completions_listen: ", absl::CEscape(listen),
                     ": other machines would send texts and tokens "
                     "unencrypted; give --completions_tls_cert, or allow it "
                     "with --insecure_completions"));
  }
  return absl::OkStatus();
}

HttpServer::Options ServerOptions(const CompletionsPort::Options& options) {
  HttpServer::Options server;
  server.listen = options.listen;
  server.listen_flag = "completions_listen";
  server.tls = options.tls;
  server.tls.flags = "completions_tls_";
  server.max_connections = 256;
  server.max_body_bytes = size_t{4} << 20;
  // Bodies that are being read or parsed. As JSON values they may take many
  // times as much memory.
  server.max_bodies_bytes = size_t{8} << 20;
  server.small_body_bytes = size_t{64} << 10;
  server.idle_timeout = absl::Seconds(10);
  server.body_timeout = absl::Seconds(30);
  server.idle_text_after = kSilence;
  server.watch_callers = true;
  server.refusal = Refusal;
  return server;
}

// Whether the request is one that is answered; sends the answer if not.
bool IsKnown(HttpExchange* exchange) {
  const HttpRequest& request = exchange->request();
  if (request.path != kCompletions && request.path != kModels) {
    const std::string path = absl::CEscape(request.path.substr(0, kMostPath));
    exchange->Send(ErrorResponse(
        NoSuch(404, absl::StrCat("no such path: ", path), "unknown_url")));
    return false;
  }
  const absl::string_view wanted = request.path == kModels ? "GET" : "POST";
  if (request.method != wanted) {
    exchange->Send(
        ErrorResponse(NoSuch(405, absl::StrCat(request.path, " takes ", wanted),
                             "method_not_allowed")));
    return false;
  }
  return true;
}

}  // namespace

struct CompletionsPort::Call {
  bool HasLeft() const { return *left; }

  const std::shared_ptr<HttpExchange> exchange;
  const std::string ticket;
  const absl::Time arrived;
  // Whether the caller has left.
  const std::shared_ptr<const std::atomic<bool>> left;
};

absl::StatusOr<std::unique_ptr<CompletionsPort>> CompletionsPort::Start(
    const Options& options, TextModels* models) {
  RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<CompletionsPort> port(new CompletionsPort(options, models));
  ASSIGN_OR_RETURN(port->server_,
                   HttpServer::Start(ServerOptions(options),
                                     [raw = port.get()](auto exchange) {
                                       raw->Handle(std::move(exchange));
                                     }));
  return port;
}

CompletionsPort::CompletionsPort(const Options& options, TextModels* models)
    : options_(options),
      models_(models),
      threads_(std::make_unique<CallThreads>(kThreads, kWaiting)) {}

CompletionsPort::~CompletionsPort() {
  if (server_ != nullptr) server_->Shutdown(absl::ZeroDuration());
  threads_.reset();
}

void CompletionsPort::Handle(std::shared_ptr<HttpExchange> exchange) {
  if (!IsKnown(exchange.get())) return;
  absl::StatusOr<std::string> ticket = TicketOfRequest(exchange->request());
  if (!ticket.ok()) {
    return exchange->Send(ErrorResponse(ErrorOf(ticket.status())));
  }
  const auto left = std::make_shared<std::atomic<bool>>(false);
  exchange->OnDisconnect([left] { *left = true; });
  const Call call = {exchange, *std::move(ticket), absl::Now(), left};
  const bool taken = threads_->Run([this, call] {
    if (call.HasLeft()) return;
    const absl::Status status =
        call.exchange->request().path == kModels ? List(call) : Complete(call);
    if (!status.ok()) call.exchange->Send(ErrorResponse(ErrorOf(status)));
  });
  if (!taken) {
    exchange->Send(ErrorResponse(
        ErrorOf(absl::ResourceExhaustedError("too many calls wait"))));
  }
}

absl::Status CompletionsPort::List(const Call& call) {
  ASSIGN_OR_RETURN(const std::vector<ListedModel> models,
                   models_->List(call.ticket, call.arrived + kListTime,
                                 [&call] { return call.HasLeft(); }));
  call.exchange->Send(JsonResponse(200, ModelsJson(models)));
  return absl::OkStatus();
}

absl::Status CompletionsPort::Complete(const Call& call) {
  RETURN_IF_ERROR(CheckJsonBody(call.exchange->request()));
  ASSIGN_OR_RETURN(const CompletionRequest request,
                   ParseCompletionRequest(call.exchange->request().body));
  call.exchange->DropBody();
  const absl::Time deadline =
      call.arrived +
      (request.stream ? options_.most_stream_time : options_.most_time);
  const CompletionAnswer answer(NewId(), request.generate.name(), absl::Now(),
                                request.include_usage);
  EventStream events(call.exchange.get(), deadline + kLastWords);
  std::string text = request.echo ? request.generate.prompt() : "";
  v1::GenerateResponse last;
  const auto write = [&](const v1::GenerateResponse& piece) {
    if (piece.finish() != v1::GenerateResponse::FINISH_UNSPECIFIED)
      last = piece;
    if (!request.stream) {
      text += piece.text();
      return true;
    }
    v1::GenerateResponse sent = piece;
    // The prompt, if it is to be there, goes before the first piece.
    sent.set_text(absl::StrCat(text, piece.text()));
    text.clear();
    return events.Send(answer.Piece(sent));
  };
  const absl::Status status = models_->Generate(
      request.generate, call.ticket, deadline,
      [&] { return call.HasLeft() || (request.stream && !events.KeepAlive()); },
      write);
  if (!events.begun()) {
    RETURN_IF_ERROR(status);
    call.exchange->Send(JsonResponse(200, answer.Whole(text, last)));
    return absl::OkStatus();
  }
  // Readers that have gone take nothing more.
  if (!status.ok()) {
    events.Send(ErrorJson(ErrorOf(status)));
  } else {
    if (request.include_usage) events.Send(answer.Usage(last));
    events.Send("[DONE]");
  }
  events.End();
  return absl::OkStatus();
}

}  // namespace comera::worker
