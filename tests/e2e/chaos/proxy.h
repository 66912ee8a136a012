#ifndef COMERA_TESTS_E2E_CHAOS_PROXY_H_
#define COMERA_TESTS_E2E_CHAOS_PROXY_H_

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace comera::e2e {

// Passes TCP connections on, late, in small pieces, or in one direction not at
// all, where the network itself cannot be disturbed. TCP keeps bytes in order,
// so what arrives late delays what comes after it.
//
// A thread of its own serves all routes from construction on. Thread-safe.
class ChaosProxy {
 public:
  // How the connections of a group are served.
  struct Manner {
    // How long each piece is held back.
    absl::Duration least, most;
    // The most bytes of a piece; 0: as many as arrive.
    size_t piece = 0;
    // Nothing is passed on to the server, or from it.
    bool silent_to = false, silent_from = false;
  };

  ChaosProxy();
  ~ChaosProxy();

  // Listens at `listen`, an IPv4 address and port (0: any), and connects each
  // caller with `server`; returns the address. Unavailable: the address cannot
  // be had.
  absl::StatusOr<std::string> AddRoute(const std::string& listen,
                                       const std::string& server, int group);
  // What is sent after it returns is passed on in this manner.
  void Set(int group, const Manner& manner);

 private:
  // What one side has sent and the other has not got.
  struct Stream {
    struct Piece {
      absl::Time due;
      std::string data;
    };
    std::list<Piece> pieces;
    size_t bytes = 0;
    bool ended = false;
  };
  struct Connection {
    int group = 0;
    int client = -1, server = -1;
    Stream to_server, to_client;
  };
  struct Route {
    int listener = -1;
    std::string server;
    int group = 0;
  };

  void Loop();
  void Accept(const Route& route);
  // Reads what there is and splits it; returns whether the connection is whole.
  bool Read(int fd, const Manner& manner, Stream* stream);
  // Writes what is due; returns whether the connection is whole.
  static bool Write(int fd, bool silent, absl::Time now, Stream* stream);

  std::mutex mutex_;
  std::vector<Route> routes_;      // guarded by mutex_
  std::map<int, Manner> manners_;  // guarded by mutex_
  bool ending_ = false;            // guarded by mutex_
  int64_t turn_ = 0;               // guarded by mutex_
  std::condition_variable turned_;
  // The following is used by the thread alone.
  std::list<Connection> connections_;
  std::mt19937 random_;
  std::thread thread_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_PROXY_H_
