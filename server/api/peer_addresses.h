#ifndef COMERA_SERVER_API_PEER_ADDRESSES_H_
#define COMERA_SERVER_API_PEER_ADDRESSES_H_

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/runtime/event_loop.h"

namespace comera::server {

// Compares the addresses that workers announce with those that they call from,
// so that none can send callers elsewhere.
//
// An address of this machine is taken from callers on this machine. A name is
// looked up on a thread of its own; until the answer is there, and where it
// changes, the announced address is not taken. Thread-safe; does not block.
class PeerAddresses {
 public:
  // Returns the numeric addresses of a host name; empty: it has none.
  using Resolver = std::function<std::vector<std::string>(const std::string&)>;

  // With `trusting`, every address is taken.
  explicit PeerAddresses(bool trusting, Resolver resolver = nullptr);
  // Waits for the lookup under way, and makes none of those that wait.
  ~PeerAddresses() { ending_ = true; }

  // Whether `announced`, host:port, is where a call of this gRPC peer ("ipv4:
  // 10.0.0.1:5") comes from. The log says once of a worker that it is not.
  bool Accepts(const std::string& worker, const std::string& announced,
               const std::string& peer, absl::Time now);

 private:
  struct Name {
    std::vector<std::string> addresses;
    // Looked up again after this.
    absl::Time until = absl::InfinitePast();
    bool pending = false;
  };

  // The addresses of the name as known now; asks for newer ones if they are
  // old.
  std::vector<std::string> Resolve(const std::string& name, absl::Time now);

  const bool trusting_;
  const Resolver resolver_;
  std::mutex mutex_;
  std::map<std::string, Name> names_ ABSL_GUARDED_BY(mutex_);
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> refused_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> ending_{false};
  // Ends first: its closures use the rest.
  EventLoop lookups_;
};

// Returns the host of gRPC's name of a caller in the canonical form of its
// address; "local" for callers on this machine by other means than IP, and ""
// for what is no address.
std::string HostOfPeer(const std::string& peer);

}  // namespace comera::server

#endif  // COMERA_SERVER_API_PEER_ADDRESSES_H_
