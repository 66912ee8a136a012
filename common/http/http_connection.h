// Connections of HttpServer; for its own use.
#ifndef COMERA_COMMON_HTTP_HTTP_CONNECTION_H_
#define COMERA_COMMON_HTTP_HTTP_CONNECTION_H_

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/http/http_server.h"

namespace comera {

class HttpConnection;

// What a connection takes of the server's places.
struct HttpPlace {
  // Its PeerKey.
  std::string peer;
  // One of Options::reserved_connections.
  bool reserved = false;
};

// What all connections of a server share. Thread-safe.
class HttpConnections {
 public:
  HttpConnections(const HttpServer::Options& options, HttpHandler handler)
      : options_(options), handler_(std::move(handler)) {}

  const HttpServer::Options& options() const { return options_; }
  const HttpHandler& handler() const { return handler_; }

  // The place of a new connection of `peer` (PeerKey), of which at most
  // `max_connections` are ordinary; nothing: there is none. It is for one
  // connection, which Add gets next and Leave gives back.
  std::optional<HttpPlace> Enter(const std::string& peer, int max_connections);
  void Leave(const HttpPlace& place, HttpConnection* connection);
  // A reserved connection has sent its request, and stays until MayGo, after
  // the answer: it is then the first to make room.
  void Keep(HttpConnection* connection);
  void MayGo(const std::shared_ptr<HttpConnection>& connection);

  void Add(const std::shared_ptr<HttpConnection>& connection,
           const HttpPlace& place);
  void Remove(HttpConnection* connection);
  size_t size() const;
  // How many are not closed.
  int open() const { return open_; }
  void Closed() { --open_; }
  // How many are answering.
  int active() const { return active_; }
  void AddActive(int by) { active_ += by; }

  // Lets those act whose time has come.
  void Sweep();
  void CloseAll();

  // False: too much is held already.
  bool ReserveBody(size_t bytes);
  void ReleaseBody(size_t bytes) { body_bytes_ -= bytes; }

 private:
  std::vector<std::shared_ptr<HttpConnection>> All() const;

  const HttpServer::Options options_;
  const HttpHandler handler_;
  std::atomic<int> open_{0};
  std::atomic<int> active_{0};
  std::atomic<size_t> body_bytes_{0};
  mutable std::mutex mutex_;
  std::unordered_map<HttpConnection*, std::weak_ptr<HttpConnection>>
      connections_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, int> of_peer_ ABSL_GUARDED_BY(mutex_);
  int reserved_ ABSL_GUARDED_BY(mutex_) = 0;
  // Reserved connections that a newcomer may push out, in this order.
  std::deque<std::pair<HttpConnection*, std::weak_ptr<HttpConnection>>> waiting_
      ABSL_GUARDED_BY(mutex_);
};

// One connection, which owns itself by what it waits for.
class HttpConnection {
 public:
  virtual ~HttpConnection() = default;

  // Clear text if `tls` is null. `socket` has a strand as its executor.
  static void Start(boost::asio::ip::tcp::socket socket, HttpPlace place,
                    std::shared_ptr<boost::asio::ssl::context> tls,
                    std::shared_ptr<HttpConnections> all);

  // Acts on its strand if its time has come.
  virtual void Sweep(int64_t now_ms) = 0;
  virtual void Close() = 0;
};

}  // namespace comera

#endif  // COMERA_COMMON_HTTP_HTTP_CONNECTION_H_
