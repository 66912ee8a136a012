// What a coordinator that does not lead lets its callers do: read jobs.
#ifndef COMERA_SERVER_DAEMON_FOLLOWER_ACCESS_H_
#define COMERA_SERVER_DAEMON_FOLLOWER_ACCESS_H_

#include <memory>

#include "grpcpp/generic/async_generic_service.h"
#include "server/auth/access.h"
#include "server/daemon/leader_hint.h"

namespace comera::server {

// Callers who may do more than view are sent to the leader for it, whatever
// the service: every change is preceded by a check of its permission.
class FollowerAccess : public AccessControl {
 public:
  // Both must outlive this.
  FollowerAccess(AccessControl* access, const LeaderHint* leader)
      : access_(access), leader_(leader) {}

  absl::StatusOr<std::unique_ptr<Caller>> Identify(
      const grpc::CallbackServerContext& context) override;

 private:
  AccessControl* const access_;
  const LeaderHint* const leader_;
};

// Answers the calls of services that only the leader has.
class LeaderOnlyService : public grpc::CallbackGenericService {
 public:
  // Both must outlive the server.
  LeaderOnlyService(AccessControl* access, const LeaderHint* leader)
      : access_(access), leader_(leader) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  AccessControl* const access_;
  const LeaderHint* const leader_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_FOLLOWER_ACCESS_H_
