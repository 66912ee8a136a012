// Connections of HttpServer; for its own use.
#ifndef COMERA_COMMON_HTTP_HTTP_CONNECTION_H_
#define COMERA_COMMON_HTTP_HTTP_CONNECTION_H_

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/http/http_server.h"

namespace comera {

class HttpConnection;

// What all connections of a server share. Thread-safe.
class HttpConnections {
 public:
  HttpConnections(const HttpServer::Options& options, HttpHandler handler)
      : options_(options), handler_(std::move(handler)) {}

  const HttpServer::Options& options() const { return options_; }
  const HttpHandler& handler() const { return handler_; }

  void Add(const std::shared_ptr<HttpConnection>& connection);
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
      connections_;  // guarded by mutex_
};

// One connection, which owns itself by what it waits for.
class HttpConnection {
 public:
  virtual ~HttpConnection() = default;

  // Clear text if `tls` is null. `socket` has a strand as its executor.
  static void Start(boost::asio::ip::tcp::socket socket,
                    std::shared_ptr<boost::asio::ssl::context> tls,
                    std::shared_ptr<HttpConnections> all);

  // Acts on its strand if its time has come.
  virtual void Sweep(int64_t now_ms) = 0;
  virtual void Close() = 0;
};

}  // namespace comera

#endif  // COMERA_COMMON_HTTP_HTTP_CONNECTION_H_
