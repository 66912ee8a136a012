// Opens the HTTP port of completions and answers its calls.

#include "worker/completions/completions_port.h"

#include <cstddef>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "civetweb.h"
#include "common/loopback.h"
#include "common/status_macros.h"
#include "worker/completions/caller_socket.h"
#include "worker/completions/completion_answer.h"
#include "worker/completions/http_exchange.h"

namespace comera::worker {
namespace {

// How long after its deadline a stream may still tell that its time is over.
constexpr absl::Duration kLastWords = absl::Seconds(5);
constexpr absl::Duration kListTime = absl::Seconds(30);
constexpr size_t kMostPath = 100;
// The size of all large bodies that are being read. As JSON values they may
// take many times as much memory.
constexpr int64_t kMostBodies = int64_t{8} << 20;

constexpr char kCompletions[] = "/v1/completions";
constexpr char kModels[] = "/v1/models";

// Connections that are served at once, each on a thread, and that may wait.
constexpr int kThreads = 16;
constexpr char kWaiting[] = "32";
constexpr char kTimeoutMilliseconds[] = "10000";
constexpr char kMostHead[] = "16384";

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

// CivetWeb takes a list of ports with letters for options: one plain address is
// let through.
absl::Status CheckAddress(const CompletionsPort::Options& options) {
  const std::string& listen = options.listen;
  const size_t colon = listen.rfind(':');
  const std::string port =
      colon == std::string::npos ? "" : listen.substr(colon + 1);
  if (colon == 0 || port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string::npos ||
      listen.find_first_not_of("0123456789abcdef.:[]") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("completions_listen: \"", absl::CEscape(listen),
                     "\" is not address:port, e.g. 127.0.0.1:7402"));
  }
  if (!options.insecure && !IsLoopback(listen.substr(0, colon))) {
    return absl::InvalidArgumentError(
        "completions_listen: other machines would send texts and tokens "
        "unencrypted; --insecure_completions allows it");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompletionsPort>> CompletionsPort::Start(
    const Options& options, TextModels* models) {
  RETURN_IF_ERROR(CheckAddress(options));
  std::unique_ptr<CompletionsPort> served(new CompletionsPort(options, models));
  mg_callbacks callbacks = {};
  callbacks.begin_request = [](mg_connection* connection) {
    void* port = mg_get_user_data(mg_get_context(connection));
    static_cast<CompletionsPort*>(port)->Handle(connection);
    return 1;
  };
  // Its messages are about single connections.
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };
  const std::string threads = absl::StrCat(kThreads);
  const char* settings[] = {"listening_ports",
                            options.listen.c_str(),
                            "num_threads",
                            threads.c_str(),
                            "connection_queue",
                            kWaiting,
                            "listen_backlog",
                            kWaiting,
                            "request_timeout_ms",
                            kTimeoutMilliseconds,
                            "max_request_size",
                            kMostHead,
                            "tcp_nodelay",
                            "1",
                            nullptr};
  mg_init_data init = {};
  init.callbacks = &callbacks;
  init.user_data = served.get();
  init.configuration_options = settings;
  char text[256] = {};
  mg_error_data error = {};
  error.text = text;
  error.text_buffer_size = sizeof(text);
  served->context_ = mg_start2(&init, &error);
  mg_server_port port = {};
  if (served->context_ == nullptr ||
      mg_get_server_ports(served->context_, 1, &port) != 1) {
    return absl::UnavailableError(absl::StrCat(
        "completions_listen: ", options.listen, ": cannot be opened ", text));
  }
  served->address_ = absl::StrCat(
      options.listen.substr(0, options.listen.rfind(':')), ":", port.port);
  return served;
}

CompletionsPort::CompletionsPort(const Options& options, TextModels* models)
    : options_(options), models_(models), bodies_(kThreads, kMostBodies) {}

CompletionsPort::~CompletionsPort() {
  if (context_ != nullptr) mg_stop(context_);
}

void CompletionsPort::Handle(mg_connection* connection) {
  // What a refused sender still sends is not waited for.
  mg_disable_connection_keep_alive(connection);
  const mg_request_info& info = *mg_get_request_info(connection);
  const absl::string_view path =
      info.local_uri == nullptr ? "" : info.local_uri;
  const absl::string_view method =
      info.request_method == nullptr ? "" : info.request_method;
  if (path != kCompletions && path != kModels) {
    return SendError(
        connection,
        NoSuch(404,
               absl::StrCat("no such path: ",
                            absl::CEscape(path.substr(0, kMostPath))),
               "unknown_url"));
  }
  const absl::string_view wanted = path == kModels ? "GET" : "POST";
  if (method != wanted) {
    return SendError(connection,
                     NoSuch(405, absl::StrCat(path, " takes ", wanted),
                            "method_not_allowed"));
  }
  const absl::StatusOr<std::string> token = TokenOfRequest(connection);
  absl::Status status = token.status();
  if (status.ok()) {
    status = path == kModels ? List(connection, *token)
                             : Complete(connection, *token);
  }
  if (!status.ok()) SendError(connection, ErrorOf(status));
}

absl::Status CompletionsPort::List(mg_connection* connection,
                                   const std::string& token) {
  const CallerSocket caller(connection);
  ASSIGN_OR_RETURN(const std::vector<ListedModel> models,
                   models_->List(token, absl::Now() + kListTime,
                                 [&] { return caller.HasLeft(); }));
  SendJson(connection, 200, ModelsJson(models));
  return absl::OkStatus();
}

absl::StatusOr<CompletionRequest> CompletionsPort::ReadRequest(
    mg_connection* connection) {
  ASSIGN_OR_RETURN(const JsonBody body, ReadJsonBody(connection, &bodies_));
  return ParseCompletionRequest(body.text);
}

absl::Status CompletionsPort::Complete(mg_connection* connection,
                                       const std::string& token) {
  ASSIGN_OR_RETURN(const CompletionRequest request, ReadRequest(connection));
  const CallerSocket caller(connection);
  const absl::Time now = absl::Now();
  const absl::Time deadline =
      now + (request.stream ? options_.most_stream_time : options_.most_time);
  const CompletionAnswer answer(NewId(), request.generate.name(), now,
                                request.include_usage);
  EventStream events(connection, deadline + kLastWords);
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
      request.generate, token, deadline,
      [&] {
        return caller.HasLeft() || (request.stream && !events.KeepAlive());
      },
      write);
  if (!events.begun()) {
    RETURN_IF_ERROR(status);
    SendJson(connection, 200, answer.Whole(text, last));
    return absl::OkStatus();
  }
  // Readers that have gone take nothing more.
  if (!status.ok()) {
    events.Send(ErrorJson(ErrorOf(status)));
    return absl::OkStatus();
  }
  if (request.include_usage) events.Send(answer.Usage(last));
  events.Send("[DONE]");
  return absl::OkStatus();
}

}  // namespace comera::worker
