#ifndef COMERA_SERVER_DAEMON_LEADER_FORWARDER_H_
#define COMERA_SERVER_DAEMON_LEADER_FORWARDER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc_channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/auth/access.h"
#include "server/auth/forwarded_calls.h"
#include "server/daemon/leader_hint.h"

namespace comera::server {

// Passes calls on to the leading coordinator: all that the services of a
// coordinator that does not lead leave open, of clients, workers and the HTTP
// port alike. Messages pass unread, one at a time in each direction; metadata,
// the deadline and cancellation pass too. The leader checks who calls and what
// they may do. Thread-safe.
//
// A call that finds no leader is held until there is one, or until `patience`
// is over; no thread waits for it. So is a call that its leader did not begin,
// and one that changes nothing and whose leader went away before it answered.
// Where the authorities are the system's, a leader's certificate may be of
// another one. If no connection was made for as long as that, callers are sent
// to the leader, whom they may well know.
class LeaderForwarder : public grpc::CallbackGenericService {
 public:
  // Calls its argument once this coordinator shows what the leader had
  // committed when it was called.
  using CatchUp = std::function<void(std::function<void()> done)>;
  // Runs a closure after that time, on a thread of its own; it may drop it once
  // Stop() was called.
  using PostAfter = std::function<void(absl::Duration, std::function<void()>)>;

  struct Options {
    // How channels to other coordinators are secured.
    ChannelSecurity security;
    // How long a call is held for want of a leader, which should be longer than
    // a change of leader takes.
    absl::Duration patience = absl::Seconds(10);
    // More calls than this are not held but refused.
    size_t max_held = 20000;
    // Identifies callers who are told where the leader is; null: everybody is.
    AccessControl* access = nullptr;
  };

  // `catch_up` runs between the success of a call that changes something and
  // its answer, so that the caller then finds the change here. The pointers
  // must outlive the server, and this object what it has posted.
  LeaderForwarder(const Options& options, const LeaderHint* leader,
                  const ForwardedCalls* forwarded, CatchUp catch_up,
                  PostAfter post_after);

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  // Ends the calls that are held, with UNAVAILABLE, and holds none from then
  // on.
  void Stop();

  // The number of calls that are held.
  size_t held() const;

 private:
  class Call;

  // The channel to that address, which is opened when it changes.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(
      const std::string& address);
  // Holds the call until there is a leader, or ends it where it must not wait.
  void Hold(Call* call);
  // Passes on the held calls whose leader is there, and ends those whose time
  // is over.
  void Poll();
  // Returns whether the call was passed on or has ended.
  bool Settle(Call* call, absl::Time now);
  // Returns whether the leader is there. Sets `unknown` to the time for which
  // no connection could be made, where that may be because the system's
  // authorities do not know its certificate.
  bool IsReady(grpc::Channel* channel, absl::Duration* unknown);

  const Options options_;
  const LeaderHint* const leader_;
  const ForwardedCalls* const forwarded_;
  const CatchUp catch_up_;
  const PostAfter post_after_;

  std::mutex mutex_;
  std::string address_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
  // The channel has been connected, so its certificate is known.
  bool was_ready_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time failing_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool told_unknown_ ABSL_GUARDED_BY(mutex_) = false;

  mutable std::mutex held_mutex_;
  // Whoever takes a call out of here alone may pass it on or end it.
  std::vector<Call*> held_ ABSL_GUARDED_BY(held_mutex_);
  // Poll() was posted.
  bool looks_ ABSL_GUARDED_BY(held_mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(held_mutex_) = false;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_LEADER_FORWARDER_H_
