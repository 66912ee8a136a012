#ifndef COMERA_SERVER_DAEMON_CONNECTION_PLACES_H_
#define COMERA_SERVER_DAEMON_CONNECTION_PLACES_H_

#include <sys/types.h>

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace comera::server {

// How many connections a port has, of whom.
struct ConnectionLimits {
  int connections = 4096;
  int per_address = 256;
  // The same for addresses of loopback, where a proxy or a tunnel may speak for
  // many.
  int per_loopback_address = 2048;
  // Further places for addresses that have no connection yet: many strangers
  // together do not shut out a probe or an administrator.
  int reserve = 32;
};

// The places of connections that somebody else serves and closes without a
// word. A place is free once its file descriptor is closed or names another
// file. Not thread-safe.
class ConnectionPlaces {
 public:
  explicit ConnectionPlaces(const ConnectionLimits& limits) : limits_(limits) {}

  // Takes a place for an open connection of `peer` (PeerKey). False: there is
  // none for this peer.
  bool Take(int fd, const std::string& peer);

  // Places that are not known to be free.
  size_t taken() const { return places_.size(); }

 private:
  struct Place {
    dev_t device = 0;
    ino_t inode = 0;
    std::string peer;
  };

  void Free(int fd);
  // Frees what is closed of all, or of one peer.
  void FreeClosed();
  void FreeClosedOf(const std::string& peer);
  size_t Count(const std::string& peer) const;

  const ConnectionLimits limits_;
  std::unordered_map<int, Place> places_;  // by file descriptor
  std::unordered_map<std::string, std::unordered_set<int>> of_peer_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_CONNECTION_PLACES_H_
