#ifndef COMERA_SERVER_DAEMON_LEADER_HINT_H_
#define COMERA_SERVER_DAEMON_LEADER_HINT_H_

#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {

// Where the leading coordinator was last seen. Thread-safe.
class LeaderHint {
 public:
  void Set(const std::string& address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    address_ = address;
  }
  // Sends the caller there (rpc_errors.h).
  absl::Status NotLeader() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return server::NotLeader(address_);
  }

 private:
  mutable std::mutex mutex_;
  std::string address_;  // guarded by mutex_
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_LEADER_HINT_H_
