// Opens server-sent event streams and reads them to their ends.

#include "tests/bench/service/http_watch_load.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace comera::bench {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

constexpr char kFirstState[] = "event: stateChange";
constexpr char kLast[] = "event: end";

}  // namespace

absl::Status HttpWatchers::Open(const std::string& address,
                                const std::string& path, int count) {
  const size_t colon = address.rfind(':');
  Error error;
  const auto found = asio::ip::tcp::resolver(io_).resolve(
      address.substr(0, colon), address.substr(colon + 1), error);
  if (error || found.empty()) return absl::UnavailableError(error.message());
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", address, "\r\n\r\n");
  for (int i = 0; i < count; ++i) {
    asio::ip::tcp::socket socket(io_);
    socket.connect(found.begin()->endpoint(), error);
    if (!error) asio::write(socket, asio::buffer(request), error);
    std::string read;
    if (!error) {
      asio::read_until(socket, asio::dynamic_buffer(read), kFirstState, error);
    }
    if (error) return absl::UnavailableError(error.message());
    sockets_.push_back(std::move(socket));
  }
  return absl::OkStatus();
}

absl::Status HttpWatchers::AwaitEnd() {
  for (asio::ip::tcp::socket& socket : sockets_) {
    std::string rest;
    Error error;
    asio::read(socket, asio::dynamic_buffer(rest), error);
    if (!absl::StrContains(rest, kLast)) {
      return absl::DataLossError(
          absl::StrCat("a stream broke off: ", error.message()));
    }
  }
  sockets_.clear();
  return absl::OkStatus();
}

}  // namespace comera::bench
