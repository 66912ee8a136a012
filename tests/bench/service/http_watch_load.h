#ifndef COMERA_TESTS_BENCH_SERVICE_HTTP_WATCH_LOAD_H_
#define COMERA_TESTS_BENCH_SERVICE_HTTP_WATCH_LOAD_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace comera::bench {

// Reads streams of server-sent events, each on a connection of its own. Not
// thread-safe.
class HttpWatchers {
 public:
  // Opens `count` streams of the path, one after another: the next is opened
  // once the last has brought its first state. Unavailable.
  absl::Status Open(const std::string& address, const std::string& path,
                    int count);
  // Reads all streams to their ends. DataLoss: one broke off before its last
  // event.
  absl::Status AwaitEnd();

 private:
  boost::asio::io_context io_;
  std::vector<boost::asio::ip::tcp::socket> sockets_;
};

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SERVICE_HTTP_WATCH_LOAD_H_
