#ifndef COMERA_SERVER_HTTP_HTTP_GATEWAY_H_
#define COMERA_SERVER_HTTP_HTTP_GATEWAY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/http_server.h"
#include "grpcpp/grpcpp.h"
#include "server/auth/forwarded_calls.h"
#include "server/auth/oidc/browser_sign_in.h"
#include "server/auth/token_access.h"
#include "server/http/answer_cache.h"
#include "server/http/metrics_source.h"

namespace comera::server {

// The coordinator's HTTP port: its API as JSON, the dashboard, health checks
// and metrics (docs/http.md). Serves from Start() until Shutdown() or
// destruction. Thread-safe.
class HttpGateway {
 public:
  struct Options {
    // listen empty: there is no such port.
    HttpServer::Options server;
    // Names in Host that are this server's, e.g. behind a proxy.
    std::vector<std::string> names;
    // Anybody who reaches the port may read /metrics.
    bool open_metrics = false;
    // Answers shared by those who ask the same.
    AnswerCache::Options cache;
    // The deadline of calls that are not streams.
    absl::Duration call_timeout = absl::Seconds(60);
  };
  // What is behind it; all must outlive the gateway.
  struct Backend {
    // To the gRPC server in this process.
    std::shared_ptr<grpc::Channel> channel;
    TokenAccess* access = nullptr;
    const ForwardedCalls* forwarded = nullptr;
    // Null: there is no single sign-on. The gateway stops it.
    BrowserSignIn* sign_in = nullptr;
    // Rises with every call that changes something, and with what happens to
    // jobs.
    std::function<int64_t()> changes;
    MetricsSource metrics;
    // Whether it leads, or shows what another coordinator does.
    bool leads = true;
    // Whether it takes no changes now, for want of room on its disk; unset: it
    // always takes them.
    std::function<bool()> read_only;
  };

  // Errors of HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<HttpGateway>> Start(
      const Options& options, Backend backend);
  ~HttpGateway();

  // With the port that was bound.
  const std::string& address() const;

  // Not ready any more: load balancers go elsewhere.
  void Leave();
  // Answers what is under way, at most `grace`, and ends all connections.
  // The gRPC server must still run.
  void Shutdown(absl::Duration grace);

 private:
  class Impl;
  explicit HttpGateway(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_HTTP_GATEWAY_H_
