#ifndef COMERA_SERVER_DAEMON_LEADER_FORWARDER_H_
#define COMERA_SERVER_DAEMON_LEADER_FORWARDER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/rpc_channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/auth/forwarded_calls.h"
#include "server/daemon/leader_hint.h"

namespace comera::server {

// Passes calls on to the leading coordinator: all that the services of a
// coordinator that does not lead leave open, of clients, workers and the HTTP
// port alike. Messages pass unread, one at a time in each direction; metadata,
// the deadline and cancellation pass too. The leader checks who calls and what
// they may do. Thread-safe.
class LeaderForwarder : public grpc::CallbackGenericService {
 public:
  // Calls its argument once this coordinator shows what the leader had
  // committed when it was called.
  using CatchUp = std::function<void(std::function<void()> done)>;

  // `security`: of channels to other coordinators. `catch_up` runs between the
  // success of a call that changes something and its answer, so that the caller
  // then finds the change here. The pointers must outlive the server.
  LeaderForwarder(ChannelSecurity security, const LeaderHint* leader,
                  const ForwardedCalls* forwarded, CatchUp catch_up);

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  class Call;

  // The channel to that address, which is opened when it changes.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(
      const std::string& address);

  const ChannelSecurity security_;
  const LeaderHint* const leader_;
  const ForwardedCalls* const forwarded_;
  const CatchUp catch_up_;

  std::mutex mutex_;
  std::string address_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_LEADER_FORWARDER_H_
