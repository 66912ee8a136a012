#ifndef COMERA_SERVER_DAEMON_LEADER_HINT_H_
#define COMERA_SERVER_DAEMON_LEADER_HINT_H_

#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {

// The leading coordinator as it was last seen. Thread-safe.
class LeaderHint {
 public:
  struct Leader {
    // Empty: none was seen.
    std::string address;
    // Shown to it by those who pass calls on.
    std::string secret;
  };

  void Set(Leader leader) {
    const std::lock_guard<std::mutex> lock(mutex_);
    leader_ = std::move(leader);
  }
  Leader Get() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return leader_;
  }
  // Sends the caller there (rpc_errors.h).
  absl::Status NotLeader() const { return server::NotLeader(Get().address); }

 private:
  mutable std::mutex mutex_;
  Leader leader_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_LEADER_HINT_H_
