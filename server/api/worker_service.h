#ifndef COMERA_SERVER_API_WORKER_SERVICE_H_
#define COMERA_SERVER_API_WORKER_SERVICE_H_

#include "comera/v1/worker_service.grpc.pb.h"
#include "server/auth/access.h"
#include "server/host/coordinator_host.h"

namespace comera::server {

// The workers' API over a CoordinatorHost. Thread-safe; never blocks a gRPC
// thread. Errors: worker_service.proto.
class WorkerService : public v1::WorkerService::CallbackService {
 public:
  // Both must outlive the server.
  WorkerService(CoordinatorHost* host, AccessControl* access)
      : host_(host), access_(access) {}

  grpc::ServerUnaryReactor* Synchronize(
      grpc::CallbackServerContext* context,
      const v1::SynchronizeRequest* request,
      v1::SynchronizeResponse* response) override;
  grpc::ServerReadReactor<v1::UploadArtifactRequest>* UploadArtifact(
      grpc::CallbackServerContext* context,
      v1::UploadArtifactResponse* response) override;

 private:
  // OK: the caller is a worker.
  absl::Status CheckWorker(const grpc::CallbackServerContext& context);

  CoordinatorHost* const host_;
  AccessControl* const access_;
};

// Receives one file; deletes itself.
grpc::ServerReadReactor<v1::UploadArtifactRequest>* StartUpload(
    CoordinatorHost* host);

}  // namespace comera::server

#endif  // COMERA_SERVER_API_WORKER_SERVICE_H_
