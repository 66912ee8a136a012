// Serves WorkerService: held Synchronize calls and uploads.
#include "server/api/worker_service.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/host_port.h"
#include "common/status_macros.h"
#include "server/rpc/rejected_stream.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

// One held Synchronize call. Finish() is called by the host's callback alone,
// which also answers an abandoned call.
class SynchronizeReactor : public grpc::ServerUnaryReactor {
 public:
  SynchronizeReactor(CoordinatorHost* host,
                     v1::SynchronizeRequest request,
                     v1::SynchronizeResponse* response)
      : host_(host) {
    call_ = host->Synchronize(
        std::move(request),
        [this, response](absl::StatusOr<v1::SynchronizeResponse> value) {
          if (value.ok()) *response = *std::move(value);
          Finish(ToRpcStatus(value.status()));
        });
  }

 private:
  void OnCancel() override { host_->Abandon(call_); }
  void OnDone() override { delete this; }

  CoordinatorHost* const host_;
  int64_t call_ = 0;
};

}  // namespace

grpc::ServerUnaryReactor* WorkerService::Synchronize(
    grpc::CallbackServerContext* context, const v1::SynchronizeRequest* request,
    v1::SynchronizeResponse* response) {
  const auto caller = access_->Identify(*context);
  absl::Status status = caller.status();
  if (status.ok()) status = (*caller)->CheckWorker(request->worker());
  if (!status.ok()) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToRpcStatus(status));
    return reactor;
  }
  v1::SynchronizeRequest report = *request;
  // A follower that passed the call on says from where it came.
  const std::string peer = (*caller)->peer();
  // A malformed one is for the coordinator to refuse.
  if (IsHostPort(report.peer_address()) &&
      !addresses_->Accepts(report.worker(), report.peer_address(),
                           peer.empty() ? context->peer() : peer,
                           absl::Now())) {
    report.clear_peer_address();
  }
  return new SynchronizeReactor(host_, std::move(report), response);
}

grpc::ServerReadReactor<v1::UploadArtifactRequest>*
WorkerService::UploadArtifact(grpc::CallbackServerContext* context,
                              v1::UploadArtifactResponse* response) {
  auto caller = access_->Identify(*context);
  absl::Status status = caller.status();
  if (status.ok()) status = (*caller)->Check(Permission::kWork, "");
  if (!status.ok()) {
    return RejectUpload<v1::UploadArtifactRequest>(status);
  }
  return StartUpload(host_, *std::move(caller));
}

}  // namespace comera::server
