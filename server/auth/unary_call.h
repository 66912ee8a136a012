// What every unary rpc does before and after its own work: find out who calls,
// refuse, and answer exactly once.
#ifndef COMERA_SERVER_AUTH_UNARY_CALL_H_
#define COMERA_SERVER_AUTH_UNARY_CALL_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/log.h"
#include "grpcpp/grpcpp.h"
#include "server/auth/access.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {

// A unary rpc of an authenticated caller that has no answer yet. Copies stand
// for the same call, so it can be handed to callbacks, and is one itself.
// Thread-safe.
//
// Exactly one Finish() must come; the request and the response are valid until
// then.
template <typename Response>
class UnaryCall {
 public:
  UnaryCall(grpc::ServerUnaryReactor* reactor, Response* response,
            std::shared_ptr<const Caller> caller)
      : state_(std::make_shared<State>(reactor, response, std::move(caller))) {}

  const std::shared_ptr<const Caller>& caller() const { return state_->caller; }
  // PermissionDenied: the caller may not do this on the queue (empty: on the
  // server as a whole).
  absl::Status Check(Permission permission,
                     const std::string& queue = "") const {
    return state_->caller->Check(permission, queue);
  }

  // The answer, which a handler may fill in part by part.
  Response& response() const { return *state_->response; }
  // Answers with what response() holds, or with the error.
  void Finish(const absl::Status& status) const {
    CHECK(!state_->finished.exchange(true)) << "a call was answered twice";
    state_->reactor->Finish(ToRpcStatus(status));
  }
  void Finish(absl::StatusOr<Response> value) const {
    if (value.ok()) *state_->response = *std::move(value);
    Finish(value.status());
  }
  // The same, as a callback.
  void operator()(absl::StatusOr<Response> value) const {
    Finish(std::move(value));
  }

 private:
  struct State {
    State(grpc::ServerUnaryReactor* reactor, Response* response,
          std::shared_ptr<const Caller> caller)
        : reactor(reactor), response(response), caller(std::move(caller)) {}

    grpc::ServerUnaryReactor* const reactor;
    Response* const response;
    const std::shared_ptr<const Caller> caller;
    std::atomic<bool> finished{false};
  };

  std::shared_ptr<State> state_;
};

// Serves a unary rpc: `handler` checks the request and starts the work. If it
// returns an error, the call ends with that; otherwise the handler has passed
// the call on to whoever answers it. The handler runs on gRPC's thread and must
// not block. A caller who cannot be identified is refused without it.
//
//   return ServeUnary(access_, context, response,
//                     [&](const UnaryCall<v1::Job>& call) {
//                       RETURN_IF_ERROR(call.Check(Permission::kView));
//                       host_->GetJob(request->name(), call);
//                       return absl::OkStatus();
//                     });
template <typename Response, typename Handler>
grpc::ServerUnaryReactor* ServeUnary(AccessControl* access,
                                     grpc::CallbackServerContext* context,
                                     Response* response,
                                     const Handler& handler) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<std::unique_ptr<Caller>> caller = access->Identify(*context);
  if (!caller.ok()) {
    reactor->Finish(ToRpcStatus(caller.status()));
    return reactor;
  }
  const UnaryCall<Response> call(reactor, response, *std::move(caller));
  const absl::Status status = handler(call);
  if (!status.ok()) call.Finish(status);
  return reactor;
}

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_UNARY_CALL_H_
