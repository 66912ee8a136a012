// Polls a server over many HTTP connections with Boost.Beast.

#include "tests/bench/service/http_poll_load.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::bench {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;
using Error = boost::system::error_code;

// The state that all pollers share.
struct Run {
  const HttpPollOptions& options;
  HttpPollFigures* figures;
  Clock::time_point end;
  absl::Status first_error;
};

class Poller : public std::enable_shared_from_this<Poller> {
 public:
  Poller(asio::io_context& io, Run* run, const std::string& path,
         Clock::time_point first)
      : run_(run), socket_(io), timer_(io), due_(first) {
    request_.method(http::verb::get);
    request_.target(path);
    request_.version(11);
    request_.set(http::field::host, run->options.address);
    request_.set(http::field::accept_encoding, "gzip");
  }

  absl::Status Connect(const asio::ip::tcp::endpoint& to) {
    Error error;
    socket_.connect(to, error);
    if (error) return absl::UnavailableError(error.message());
    socket_.set_option(asio::ip::tcp::no_delay(true), error);
    return absl::OkStatus();
  }

  void Wait() {
    if (due_ >= run_->end) return;
    timer_.expires_at(due_);
    timer_.async_wait([self = shared_from_this()](Error) { self->Ask(); });
  }

 private:
  void Ask() {
    http::async_write(socket_, request_,
                      [self = shared_from_this()](Error error, size_t) {
                        if (error) return self->Fail(error.message());
                        self->Read();
                      });
  }

  void Read() {
    response_ = {};
    http::async_read(socket_, buffer_, response_,
                     [self = shared_from_this()](Error error, size_t) {
                       if (error) return self->Fail(error.message());
                       self->OnResponse();
                     });
  }

  void OnResponse() {
    HttpPollFigures& figures = *run_->figures;
    figures.latencies.Add(absl::FromChrono(Clock::now() - due_));
    ++figures.answers;
    figures.body_bytes += static_cast<int64_t>(response_.body().size());
    if (response_.result_int() == 304) {
      ++figures.not_modified;
    } else if (response_.result_int() != 200) {
      return Fail(absl::StrCat("HTTP status ", response_.result_int()));
    }
    if (run_->options.conditional) {
      request_.set(http::field::if_none_match, response_[http::field::etag]);
    }
    due_ += std::chrono::seconds(1);
    Wait();
  }

  void Fail(const std::string& what) {
    if (run_->first_error.ok()) {
      run_->first_error = absl::UnavailableError(what);
    }
  }

  Run* const run_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  Clock::time_point due_;
  http::request<http::empty_body> request_;
  http::response<http::string_body> response_;
  boost::beast::flat_buffer buffer_;
};

}  // namespace

absl::Status PollOverHttp(const HttpPollOptions& options,
                          HttpPollFigures* figures) {
  asio::io_context io;
  const size_t colon = options.address.rfind(':');
  Error error;
  const auto found = asio::ip::tcp::resolver(io).resolve(
      options.address.substr(0, colon), options.address.substr(colon + 1),
      error);
  if (error || found.empty()) return absl::UnavailableError(error.message());
  Run run{options, figures, {}, absl::OkStatus()};
  std::vector<std::shared_ptr<Poller>> pollers;
  const auto gap =
      std::chrono::nanoseconds(std::chrono::seconds(1)) / options.pollers;
  const auto begin = Clock::now() + std::chrono::seconds(1);
  for (int i = 0; i < options.pollers; ++i) {
    const std::string& path =
        options.paths[static_cast<size_t>(i) % options.paths.size()];
    auto poller = std::make_shared<Poller>(io, &run, path, begin + gap * i);
    const absl::Status connected = poller->Connect(found.begin()->endpoint());
    if (!connected.ok()) return connected;
    pollers.push_back(std::move(poller));
  }
  run.end = begin + absl::ToChronoNanoseconds(options.duration);
  for (const auto& poller : pollers) poller->Wait();
  io.run();
  return run.first_error;
}

}  // namespace comera::bench
