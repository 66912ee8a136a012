#ifndef COMERA_COMMON_HTTP_HTTP_SERVER_H_
#define COMERA_COMMON_HTTP_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/http_exchange.h"
#include "common/http/tls_files.h"

namespace comera {

// An HTTP/1.1 server on Asio: few threads, any number of connections, each of
// which costs some kilobytes. Answers by calling a handler, on one of its
// threads. Serves from Start() until Shutdown() or destruction. Thread-safe.
class HttpServer {
 public:
  struct Options {
    // host:port, host an address or "localhost"; port 0: any free one.
    std::string listen;
    // The flag that gives it, for messages.
    std::string listen_flag = "http_listen";
    // Clear text if not enabled.
    TlsFiles tls;
    int threads = 2;
    // Further ones are closed at once. It should be less than the files that
    // the process may have open.
    int max_connections = 20000;
    // The same of one address (PeerKey), and of one of loopback, where a proxy
    // may speak for many; 0: no bound of its own.
    int connections_per_address = 0;
    int connections_per_loopback_address = 0;
    // Further places when max_connections are open, for requests that
    // admits_when_full lets in by their head; the others are answered with 503.
    // Each serves one request. Where they are taken too, one that is not being
    // answered makes room: first those that were, then the oldest.
    int reserved_connections = 32;
    // Null: there are no such places.
    std::function<bool(const HttpRequest&)> admits_when_full;
    size_t max_header_bytes = 16 << 10;
    size_t max_body_bytes = 4 << 20;
    // The size of all bodies that are being read or handled.
    size_t max_bodies_bytes = 128 << 20;
    // Bodies of at most this size are taken whatever others hold, so that a few
    // senders of large ones, whom nobody knows yet, do not shut out everybody.
    size_t small_body_bytes = 16 << 10;
    absl::Duration handshake_timeout = absl::Seconds(10);
    // From the connection to the end of its first request's head, if that is
    // less than idle_timeout.
    absl::Duration first_head_timeout = absl::Seconds(10);
    // From one answer to the end of the next request's head.
    absl::Duration idle_timeout = absl::Seconds(75);
    absl::Duration body_timeout = absl::Seconds(60);
    // How long a reader may take for the next 256 KiB.
    absl::Duration write_timeout = absl::Seconds(30);
    // How long a stream is silent before it gets its idle text.
    absl::Duration idle_text_after = absl::Seconds(15);
    // Whether a caller that leaves before the answer begins is noticed, within
    // a second. A caller that only closes its side of the connection counts as
    // gone. A stream's reader that leaves is always noticed.
    bool watch_callers = false;
    // Makes the answer to what is refused before it gets to the handler, from a
    // code of HTTP and the reason. Null: the reason as plain text.
    std::function<HttpResponse(int code, const std::string& reason)> refusal;
  };

  // InvalidArgument: the address, TLS files; Unavailable: it cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const Options& options, HttpHandler handler);
  ~HttpServer();

  // With the port that was bound.
  const std::string& address() const;

  // Accepts no more, waits at most `grace` for answers that are under way,
  // closes all connections. No handler runs after it, but exchanges live on,
  // and must go before the server.
  void Shutdown(absl::Duration grace);

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Whether a server could listen on the address now.
bool CanListen(const std::string& listen);

}  // namespace comera

#endif  // COMERA_COMMON_HTTP_HTTP_SERVER_H_
