// Sends callers who want to change something to the leader.
#include "server/daemon/follower_access.h"

#include <string>
#include <utility>

#include "common/status_macros.h"
#include "server/rpc/rejected_stream.h"

namespace comera::server {
namespace {

class FollowersCaller : public Caller {
 public:
  FollowersCaller(std::unique_ptr<Caller> caller, absl::Status not_leader)
      : caller_(std::move(caller)), not_leader_(std::move(not_leader)) {}

  const std::string& user() const override { return caller_->user(); }
  std::string token() const override { return caller_->token(); }
  std::string peer() const override { return caller_->peer(); }
  const std::string& worker() const override { return caller_->worker(); }
  absl::Status CheckWorker(const std::string& name) const override {
    RETURN_IF_ERROR(caller_->CheckWorker(name));
    return not_leader_;
  }
  absl::Status CheckStillKnown() const override {
    return caller_->CheckStillKnown();
  }
  absl::Status ChargeStream() override { return caller_->ChargeStream(); }
  absl::Status ChargeUpload() override { return caller_->ChargeUpload(); }
  absl::Status CheckSize(size_t bytes) const override {
    return caller_->CheckSize(bytes);
  }
  absl::Status Check(Permission permission,
                     const std::string& queue) const override {
    // Nobody learns where the leader is who may not do it there.
    RETURN_IF_ERROR(caller_->Check(permission, queue));
    return permission == Permission::kView ? absl::OkStatus() : not_leader_;
  }

 private:
  const std::unique_ptr<Caller> caller_;
  const absl::Status not_leader_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Caller>> FollowerAccess::Identify(
    const grpc::CallbackServerContext& context) {
  ASSIGN_OR_RETURN(std::unique_ptr<Caller> caller, access_->Identify(context));
  return std::make_unique<FollowersCaller>(std::move(caller),
                                           leader_->NotLeader());
}

grpc::ServerGenericBidiReactor* LeaderOnlyService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  const absl::Status known = access_->Identify(*context).status();
  return new RejectedStream<grpc::ServerGenericBidiReactor>(
      known.ok() ? leader_->NotLeader() : known);
}

}  // namespace comera::server
