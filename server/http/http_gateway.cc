// Routes HTTP requests to rpcs, files, metrics and sessions.
#include "server/http/http_gateway.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comera/v1/access_service.pb.h"
#include "comera/v1/training_service.pb.h"
#include "common/status_macros.h"
#include "server/http/answer.h"
#include "server/http/api_calls.h"
#include "server/http/dashboard_files.h"
#include "server/http/download.h"
#include "server/http/http_error.h"
#include "server/http/json_text.h"
#include "server/http/openapi/server_rules.h"
#include "server/http/openapi_json.h"
#include "server/http/parse_job.h"
#include "server/http/request_fields.h"
#include "server/http/request_message.h"
#include "server/http/router.h"
#include "server/http/session.h"
#include "server/http/sign_in_pages.h"
#include "server/http/static_files.h"
#include "server/http/stream_answer.h"
#include "server/http/stream_format.h"
#include "server/http/who_calls.h"

namespace comera::server {
namespace {

constexpr char kJson[] = "application/json";
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";
// The sender of a larger body is identified before anything is done with it.
constexpr size_t kLargeBody = 64 << 10;

std::string PathForPeople(const std::string& path) {
  return JsonStringOfAny(path.substr(0, 200));
}

bool WantsEvents(const HttpRequest& request) {
  const std::string* accepted = FindHeader(request.headers, "accept");
  return accepted != nullptr &&
         absl::StrContains(absl::AsciiStrToLower(*accepted),
                           "text/event-stream");
}

// Lets the log go on after the event of this id, "ATTEMPT:OFFSET".
absl::Status ResumeLog(const std::string& id, v1::ReadLogRequest* request) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(id, absl::MaxSplits(':', 1));
  RETURN_IF_ERROR(SetField("attempt", parts.first, request));
  return SetField("offset", parts.second, request);
}

bool IsJson(const HttpRequest& request) {
  const std::string* type = FindHeader(request.headers, "content-type");
  return type != nullptr && absl::StartsWithIgnoreCase(*type, kJson);
}

}  // namespace

class HttpGateway::Impl {
 public:
  Impl(const Options& options, Backend backend, Router router,
       StaticFiles dashboard)
      : options_(options),
        backend_(std::move(backend)),
        router_(std::move(router)),
        dashboard_(std::move(dashboard)),
        cache_(options_.cache),
        calls_(std::make_unique<ApiCalls>(std::move(backend_.channel),
                                          backend_.forwarded)) {}

  ~Impl() { Shutdown(absl::ZeroDuration()); }

  absl::Status Start() {
    HttpServer::Options server = options_.server;
    server.admits_when_full = [this](const HttpRequest& request) {
      return IsProbe(request) || IsAdministrators(request);
    };
    ASSIGN_OR_RETURN(
        server_,
        HttpServer::Start(server, [this](std::shared_ptr<HttpExchange> one) {
          Handle(std::move(one));
        }));
    return absl::OkStatus();
  }

  const std::string& address() const { return server_->address(); }
  void Leave() { leaving_ = true; }

  void Shutdown(absl::Duration grace) {
    Leave();
    if (server_ == nullptr) return;
    // Ends all connections, which cancels their calls; those hold connections
    // until they have ended.
    server_->Shutdown(grace);
    if (backend_.sign_in != nullptr) backend_.sign_in->Stop();
    calls_->Finish();
    server_.reset();
    calls_.reset();
  }

 private:
  using ExchangePtr = std::shared_ptr<HttpExchange>;

  static bool IsProbe(const HttpRequest& request) {
    return request.path == "/healthz" || request.path == "/readyz";
  }

  // Without tokens everybody is one.
  bool IsAdministrators(const HttpRequest& request) {
    if (!backend_.access->required()) return true;
    const auto credentials = FindCredentials(request);
    if (!credentials.ok()) return false;
    const auto token = backend_.access->FindHttpToken(
        credentials->authorization ? &*credentials->authorization : nullptr);
    return token.ok() && *token != nullptr &&
           (*token)->role() == v1::ROLE_ADMIN;
  }

  void Handle(ExchangePtr exchange) {
    const HttpRequest& request = exchange->request();
    // Probes know neither names nor tokens.
    if (IsProbe(request)) return Health(*exchange);
    auto credentials = FindCredentials(request);
    const HostPolicy policy{options_.names, !backend_.access->required()};
    const absl::Status site = CheckSite(
        request, policy, credentials.ok() && credentials->from_cookie);
    if (!site.ok()) return Refuse(*exchange, site);
    if (!credentials.ok()) return Refuse(*exchange, credentials.status());
    if (IsSignInPage(request.path)) {
      return AnswerSignIn(std::move(exchange), backend_.sign_in);
    }
    if (credentials->from_cookie) UseSession(request, &*credentials);
    const ApiCaller caller{credentials->authorization,
                           {request.peer, request.certificate_name}};
    if (request.path == "/openapi.json" && request.method == "GET") {
      return SendBody(*exchange, *openapi_);
    }
    if (request.path == "/metrics") return Metrics(*exchange, caller);
    if (request.path == "/v1/session") {
      return Session(std::move(exchange), caller);
    }
    if (request.path == "/v1/jobs:parse") return Parse(*exchange, caller);
    const Router::Match match = router_.Find(request.method, request.path);
    if (match.rule != nullptr) {
      return Call(std::move(exchange), match, caller);
    }
    if (!match.allowed.empty()) return RefuseMethod(*exchange, match.allowed);
    if (request.path == "/v1" || absl::StartsWith(request.path, "/v1/") ||
        request.method != "GET") {
      return Refuse(*exchange,
                    absl::NotFoundError(absl::StrCat(
                        "there is no path ", PathForPeople(request.path))));
    }
    SendStaticFile(*exchange, dashboard_);
  }

  // Puts the token of a session of single sign-on in place of its name.
  void UseSession(const HttpRequest& request, HttpCredentials* credentials) {
    const auto session = SessionToken(request);
    if (backend_.sign_in == nullptr || !session) return;
    const auto token = backend_.sign_in->FindToken(*session);
    if (token) credentials->authorization = absl::StrCat("Bearer ", *token);
  }

  void Health(HttpExchange& exchange) {
    const HttpRequest& request = exchange.request();
    const bool ready = request.path == "/readyz" || request.query == "ready";
    const bool read_only = backend_.read_only && backend_.read_only();
    const char* text = !ready            ? "ok\n"
                       : leaving_        ? "leaving\n"
                       : !backend_.leads ? "follower\n"
                       : read_only       ? "leader, read-only: disk full\n"
                                         : "leader\n";
    // A probe may ask for the leader, the one that does everything, or for one
    // that takes changes now.
    const bool writable = backend_.leads && !read_only;
    const bool bad =
        ready && (leaving_ || (request.query == "leader" && !backend_.leads) ||
                  (request.query == "writable" && !writable));
    Answer(exchange, MakeResponse(bad ? 503 : 200, "text/plain", text));
  }

  void Metrics(HttpExchange& exchange, const ApiCaller& caller) {
    if (exchange.request().method != "GET" || !backend_.metrics) {
      return Refuse(exchange, absl::NotFoundError("there are no metrics"));
    }
    if (!options_.open_metrics) {
      const absl::Status status = Identify(caller, Permission::kView);
      if (!status.ok()) return Refuse(exchange, status);
    }
    SendBody(exchange, kPrometheusText, backend_.metrics());
  }

  absl::Status Identify(const ApiCaller& caller, Permission permission) {
    ASSIGN_OR_RETURN(
        const std::unique_ptr<Caller> who,
        backend_.access->IdentifyHttp(
            caller.authorization ? &*caller.authorization : nullptr,
            caller.origin));
    return who->Check(permission, "");
  }

  void Call(ExchangePtr exchange, const Router::Match& match,
            const ApiCaller& caller) {
    const HttpRequest& request = exchange->request();
    // Also keeps forms of other sites out, which are no JSON.
    if (!request.body.empty() && !IsJson(request)) {
      return RefuseType(*exchange);
    }
    if (request.body.size() > kLargeBody) {
      const absl::Status known = Identify(caller, Permission::kView);
      if (!known.ok()) return Refuse(*exchange, known);
    }
    std::string key;
    if (match.rule->verb == "GET" && !match.rule->method->server_streaming()) {
      key = CacheKey(request, caller);
      if (AnswerFromCache(*exchange, key, caller)) return;
    }
    const auto query = ParseQuery(request.query);
    if (!query.ok()) return Refuse(*exchange, query.status());
    const auto message = MakeRequestMessage(match, *query, request.body);
    if (!message.ok()) return Refuse(*exchange, message.status());
    if (match.rule->method->server_streaming()) {
      return Stream(std::move(exchange), *match.rule, message->get(), caller);
    }
    Unary(std::move(exchange), *match.rule, **message, caller, std::move(key));
  }

  // Names the answer by caller and request; empty: it is not to be kept.
  std::string CacheKey(const HttpRequest& request, const ApiCaller& caller) {
    const auto token = backend_.access->FindHttpToken(
        caller.authorization ? &*caller.authorization : nullptr);
    if (!token.ok()) return "";
    return absl::StrCat(*token == nullptr ? "" : (*token)->name(), "\n",
                        caller.origin.certificate_name, "\n",
                        AcceptsGzip(request) ? "gzip" : "", "\n", request.path,
                        "?", request.query);
  }

  // The caller is charged as if the call had been made.
  bool AnswerFromCache(HttpExchange& exchange, const std::string& key,
                       const ApiCaller& caller) {
    const auto body =
        key.empty() ? nullptr : cache_.Find(key, backend_.changes());
    if (body == nullptr) return false;
    const auto who = backend_.access->IdentifyHttp(
        caller.authorization ? &*caller.authorization : nullptr, caller.origin);
    if (who.ok()) {
      SendBody(exchange, *body);
    } else {
      Refuse(exchange, who.status());
    }
    return true;
  }

  void Stream(ExchangePtr exchange, const HttpRule& rule,
              google::protobuf::Message* message, const ApiCaller& caller) {
    if (auto* file = dynamic_cast<v1::DownloadArtifactRequest*>(message)) {
      return AnswerWithFile(std::move(exchange), calls_.get(), *file, caller,
                            options_.call_timeout);
    }
    const HttpRequest& request = exchange->request();
    const std::string* last = FindHeader(request.headers, "Last-Event-ID");
    std::unique_ptr<StreamFormat> format;
    absl::Status resumed;
    if (auto* log = dynamic_cast<v1::ReadLogRequest*>(message)) {
      const bool events = WantsEvents(request);
      format = events ? LogEventFormat() : LogTextFormat();
      if (events && last != nullptr) resumed = ResumeLog(*last, log);
    } else {
      format = EventFormat(rule.method->output_type());
      if (last != nullptr) resumed = SetField("after_sequence", *last, message);
    }
    if (!resumed.ok()) {
      return Refuse(*exchange, absl::InvalidArgumentError(
                                   "Last-Event-ID: is none of this stream"));
    }
    AnswerWithStream(std::move(exchange), calls_.get(), *rule.method, *message,
                     caller, std::move(format));
  }

  void Parse(HttpExchange& exchange, const ApiCaller& caller) {
    const HttpRequest& request = exchange.request();
    if (request.method != "POST") return RefuseMethod(exchange, "POST");
    absl::Status status = Identify(caller, Permission::kView);
    if (!status.ok()) return Refuse(exchange, status);
    absl::StatusOr<JobText> job;
    if (IsJson(request)) {
      job = ParseJobBody(request.body);
    } else {
      job = JobText{request.body, ""};
    }
    if (!job.ok()) return Refuse(exchange, job.status());
    auto json = ParseJobText(*std::move(job));
    if (!json.ok()) return Refuse(exchange, json.status());
    SendBody(exchange, kJson, *std::move(json));
  }

  // A browser's session: the token in a cookie that its scripts cannot read.
  void Session(ExchangePtr exchange, ApiCaller caller) {
    const HttpRequest& request = exchange->request();
    if (request.method == "DELETE") {
      const auto session = SessionToken(request);
      if (backend_.sign_in != nullptr && session) {
        backend_.sign_in->End(*session);
      }
      HttpResponse response;
      response.code = 204;
      response.headers.emplace_back("Set-Cookie", SessionCookie(request, ""));
      return Answer(*exchange, std::move(response));
    }
    if (request.method != "POST") {
      return RefuseMethod(*exchange, "POST, DELETE");
    }
    if (!IsJson(request)) return RefuseType(*exchange);
    const auto token = ParseSession(request);
    if (!token.ok()) return Refuse(*exchange, token.status());
    caller.authorization = absl::StrCat("Bearer ", *token);
    const auto& method = ApiMethod("comera.v1.AccessService.WhoAmI");
    calls_->Unary(
        method, v1::WhoAmIRequest(), caller, options_.call_timeout,
        [exchange, token = *token, &method](const grpc::Status& status,
                                            const std::string& wire) {
          if (!status.ok()) return Answer(*exchange, ErrorResponse(status));
          auto json = WireToJson(method.output_type(), wire);
          if (!json.ok()) return Refuse(*exchange, json.status());
          HttpResponse response = MakeResponse(200, kJson, *std::move(json));
          response.headers.emplace_back(
              "Set-Cookie", SessionCookie(exchange->request(), token));
          Answer(*exchange, std::move(response));
        });
  }

  void Unary(ExchangePtr exchange, const HttpRule& rule,
             const google::protobuf::Message& message, const ApiCaller& caller,
             std::string cache_key) {
    const auto call = calls_->Unary(
        *rule.method, message, caller, options_.call_timeout,
        [this, exchange, &rule, key = std::move(cache_key),
         changes = backend_.changes()](const grpc::Status& status,
                                       const std::string& wire) {
          if (!status.ok()) return Answer(*exchange, ErrorResponse(status));
          auto json = WireToJson(rule.method->output_type(), wire);
          if (!json.ok()) return Refuse(*exchange, json.status());
          const auto body = MakeBody(kJson, *std::move(json),
                                     AcceptsGzip(exchange->request()));
          if (!key.empty()) cache_.Put(key, changes, body);
          SendBody(*exchange, *body);
        });
    exchange->OnDisconnect([weak = std::weak_ptr<ApiCalls::Call>(call)] {
      if (const auto call = weak.lock()) call->Cancel();
    });
  }

  static void RefuseType(HttpExchange& exchange) {
    Refuse(exchange,
           absl::InvalidArgumentError(
               "a body needs the header Content-Type: application/json"),
           415);
  }

  static void RefuseMethod(HttpExchange& exchange, const std::string& allowed) {
    HttpResponse response =
        ErrorResponse(absl::UnimplementedError(absl::StrCat(
                          JsonStringOfAny(exchange.request().method),
                          " is none of ", allowed, ", which this path has")),
                      405);
    response.headers.emplace_back("Allow", allowed);
    Answer(exchange, std::move(response));
  }

  static void Refuse(HttpExchange& exchange, const absl::Status& status,
                     int code = 0) {
    Answer(exchange, ErrorResponse(status, code));
  }

  static void Answer(HttpExchange& exchange, HttpResponse response) {
    SendAnswer(exchange, std::move(response));
  }

  const Options options_;
  Backend backend_;
  const Router router_;
  const StaticFiles dashboard_;
  AnswerCache cache_;
  const std::shared_ptr<const Body> openapi_ =
      MakeBody(kJson, std::string(OpenApiJson()), true);
  std::atomic<bool> leaving_{false};
  std::unique_ptr<ApiCalls> calls_;
  std::unique_ptr<HttpServer> server_;
};

HttpGateway::HttpGateway(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpGateway::~HttpGateway() = default;

absl::StatusOr<std::unique_ptr<HttpGateway>> HttpGateway::Start(
    const Options& options, Backend backend) {
  ASSIGN_OR_RETURN(std::vector<HttpRule> rules, ServerRules());
  ASSIGN_OR_RETURN(StaticFiles dashboard, DashboardFiles());
  auto impl =
      std::make_unique<Impl>(options, std::move(backend),
                             Router(std::move(rules)), std::move(dashboard));
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<HttpGateway>(new HttpGateway(std::move(impl)));
}

const std::string& HttpGateway::address() const { return impl_->address(); }
void HttpGateway::Leave() { impl_->Leave(); }
void HttpGateway::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace comera::server
