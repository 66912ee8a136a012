// Accepts connections, and starts and stops the HTTP server.
#include "common/http/http_server.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/http/http_connection.h"
#include "common/http/tls_context.h"
#include "common/log.h"
#include "common/peer_key.h"
#include "common/status_macros.h"
#include "common/steady_time.h"

namespace comera {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using Error = boost::system::error_code;

constexpr auto kSweepInterval = std::chrono::milliseconds(500);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr auto kPoll = std::chrono::milliseconds(2);
// Left for the rest of the process: stores, logs, gRPC.
constexpr int kOtherFiles = 256;

absl::StatusOr<Tcp::endpoint> ToEndpoint(asio::io_context& io,
                                         const std::string& flag,
                                         const std::string& listen) {
  const auto bad = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": \"", absl::CEscape(listen), "\" ", why));
  };
  const size_t colon = listen.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return bad("is not host:port, e.g. 127.0.0.1:7480");
  }
  std::string host = listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  Error error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (!error) return Tcp::endpoint(address, static_cast<uint16_t>(port));
  Tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port),
                                      asio::ip::resolver_base::passive, error);
  if (error || found.empty()) {
    return bad("has no address: " + error.message());
  }
  // localhost means 127.0.0.1 to most programs.
  for (const auto& one : found) {
    if (one.endpoint().address().is_v4()) return one.endpoint();
  }
  return found.begin()->endpoint();
}

absl::Status Listen(asio::io_context& io, const std::string& flag,
                    const std::string& listen, Tcp::acceptor* acceptor) {
  ASSIGN_OR_RETURN(const Tcp::endpoint endpoint, ToEndpoint(io, flag, listen));
  Error error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) {
    acceptor->listen(asio::socket_base::max_listen_connections, error);
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", listen, ": ", error.message()));
}

int MaxConnections(int wanted) {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 ||
      files.rlim_cur == RLIM_INFINITY) {
    return wanted;
  }
  const auto possible = static_cast<int64_t>(files.rlim_cur);
  return static_cast<int>(std::min<int64_t>(
      std::max(possible - kOtherFiles, possible / 2), std::max(wanted, 1)));
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const Options& options, HttpHandler handler)
      : all_(std::make_shared<HttpConnections>(options, std::move(handler))),
        max_connections_(MaxConnections(options.max_connections)) {}

  ~Impl() {
    Shutdown(absl::ZeroDuration());
    // Without anything to wait for the threads end.
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Start() {
    const Options& options = all_->options();
    if (options.tls.enabled()) {
      ASSIGN_OR_RETURN(tls_, TlsContext::Load(options.tls));
    }
    RETURN_IF_ERROR(
        Listen(io_, options.listen_flag, options.listen, &acceptor_));
    Error error;
    address_ = absl::StrCat(options.listen.substr(0, options.listen.rfind(':')),
                            ":", acceptor_.local_endpoint(error).port());
    Accept();
    Sweep();
    for (int i = 0; i < options.threads; ++i) {
      threads_.emplace_back([this] { io_.run(); });
    }
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }

  void Shutdown(absl::Duration grace) {
    if (threads_.empty() || std::exchange(shut_down_, true)) return;
    std::promise<void> closed;
    asio::post(strand_, [this, &closed] {
      Error error;
      acceptor_.close(error);
      closed.set_value();
    });
    closed.get_future().wait();
    const absl::Time end = SteadyNow() + grace;
    while (all_->active() > 0 && SteadyNow() < end) {
      std::this_thread::sleep_for(kPoll);
    }
    all_->CloseAll();
    while (all_->open() > 0) std::this_thread::sleep_for(kPoll);
    std::promise<void> stopped;
    asio::post(strand_, [this, &stopped] {
      sweep_.cancel();
      pause_.cancel();
      stopped.set_value();
    });
    stopped.get_future().wait();
  }

 private:
  std::optional<HttpPlace> Enter(const Tcp::socket& socket) {
    Error error;
    Tcp::endpoint peer = socket.remote_endpoint(error);
    // It has left already.
    if (error) return std::nullopt;
    return all_->Enter(PeerKey(peer.data()), max_connections_);
  }

  void Accept() {
    acceptor_.async_accept(
        asio::make_strand(io_), [this](Error error, Tcp::socket socket) {
          if (!acceptor_.is_open()) return;
          if (error) {
            // Out of file descriptors, most likely.
            LOG(WARNING) << "event=http_accept_failed error=\""
                         << error.message() << "\"";
            pause_.expires_after(kAcceptPause);
            pause_.async_wait([this](Error) {
              if (acceptor_.is_open()) Accept();
            });
            return;
          }
          if (auto place = Enter(socket)) {
            HttpConnection::Start(std::move(socket), *std::move(place),
                                  tls_ ? tls_->context() : nullptr, all_);
          }
          Accept();
        });
  }

  void Sweep() {
    sweep_.expires_after(kSweepInterval);
    sweep_.async_wait([this](Error error) {
      if (error || !acceptor_.is_open()) return;
      all_->Sweep();
      if (tls_) tls_->Refresh();
      Sweep();
    });
  }

  const std::shared_ptr<HttpConnections> all_;
  const int max_connections_;
  std::string address_;
  bool shut_down_ = false;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{
      io_.get_executor()};
  // Guards the acceptor, the timers and tls_.
  asio::strand<asio::io_context::executor_type> strand_{io_.get_executor()};
  Tcp::acceptor acceptor_{strand_};
  asio::steady_timer sweep_{strand_};
  asio::steady_timer pause_{strand_};
  std::unique_ptr<TlsContext> tls_;
  std::vector<std::thread> threads_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const Options& options, HttpHandler handler) {
  auto impl = std::make_unique<Impl>(options, std::move(handler));
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

const std::string& HttpServer::address() const { return impl_->address(); }

bool CanListen(const std::string& listen) {
  asio::io_context io;
  Tcp::acceptor acceptor(io);
  return Listen(io, "", listen, &acceptor).ok();
}

void HttpServer::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace comera
