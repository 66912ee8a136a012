#ifndef COMERA_SERVER_HOST_PENDING_REPLIES_H_
#define COMERA_SERVER_HOST_PENDING_REPLIES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/status/statusor.h"

namespace comera::server {

// Calls that wait for their reply, by number. Each is answered at most once:
// later replies find nothing. One thread calls it.
template <typename Response>
class PendingReplies {
 public:
  using Done = std::function<void(absl::StatusOr<Response>)>;

  void Add(int64_t call, Done done) { calls_[call] = std::move(done); }
  bool Has(int64_t call) const { return calls_.count(call) > 0; }

  void Reply(int64_t call, absl::StatusOr<Response> response) {
    const auto it = calls_.find(call);
    if (it == calls_.end()) return;
    // What is called may add calls.
    const Done done = std::move(it->second);
    calls_.erase(it);
    done(std::move(response));
  }

 private:
  std::map<int64_t, Done> calls_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_PENDING_REPLIES_H_
