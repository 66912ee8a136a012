#include "server/auth/access.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {

std::shared_ptr<const Caller> Admit(AccessControl* access,
                                    const grpc::CallbackServerContext& context,
                                    grpc::ServerUnaryReactor* reactor) {
  absl::StatusOr<std::unique_ptr<Caller>> caller = access->Identify(context);
  if (caller.ok()) return *std::move(caller);
  reactor->Finish(ToRpcStatus(caller.status()));
  return nullptr;
}

std::shared_ptr<const Caller> Admit(AccessControl* access,
                                    const grpc::CallbackServerContext& context,
                                    Permission permission,
                                    const std::string& queue,
                                    grpc::ServerUnaryReactor* reactor) {
  std::shared_ptr<const Caller> caller = Admit(access, context, reactor);
  if (caller == nullptr) return nullptr;
  const absl::Status status = caller->Check(permission, queue);
  if (status.ok()) return caller;
  reactor->Finish(ToRpcStatus(status));
  return nullptr;
}

}  // namespace comera::server
