#include "server/worker_service.h"

#include <utility>

#include "server/rpc_errors.h"

namespace comera::server {
namespace {

// One held Synchronize call. Finish() is called by the host's callback alone,
// which also answers an abandoned call.
class SynchronizeReactor : public grpc::ServerUnaryReactor {
 public:
  SynchronizeReactor(CoordinatorHost* host,
                     const v1::SynchronizeRequest& request,
                     v1::SynchronizeResponse* response)
      : host_(host) {
    call_ = host->Synchronize(
        request,
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
  return new SynchronizeReactor(host_, *request, response);
}

grpc::ServerReadReactor<v1::UploadArtifactRequest>*
WorkerService::UploadArtifact(grpc::CallbackServerContext* context,
                              v1::UploadArtifactResponse* response) {
  return StartUpload(host_);
}

}  // namespace comera::server
