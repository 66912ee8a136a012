#ifndef COMERA_SERVER_API_WORKER_SERVICE_H_
#define COMERA_SERVER_API_WORKER_SERVICE_H_

#include <memory>

#include "comera/v1/worker_service.grpc.pb.h"
#include "server/api/peer_addresses.h"
#include "server/auth/access.h"
#include "server/auth/ticket_office.h"
#include "server/host/coordinator_host.h"

namespace comera::server {

// The workers' API over a CoordinatorHost. Thread-safe; never blocks a gRPC
// thread. Errors: worker_service.proto.
class WorkerService : public v1::WorkerService::CallbackService {
 public:
  // All must outlive the server.
  WorkerService(CoordinatorHost* host, AccessControl* access,
                const TicketOffice* tickets, PeerAddresses* addresses)
      : host_(host),
        access_(access),
        tickets_(tickets),
        addresses_(addresses) {}

  grpc::ServerUnaryReactor* Synchronize(
      grpc::CallbackServerContext* context,
      const v1::SynchronizeRequest* request,
      v1::SynchronizeResponse* response) override;
  grpc::ServerReadReactor<v1::UploadArtifactRequest>* UploadArtifact(
      grpc::CallbackServerContext* context,
      v1::UploadArtifactResponse* response) override;
  grpc::ServerUnaryReactor* RedeemTicket(
      grpc::CallbackServerContext* context,
      const v1::RedeemTicketRequest* request,
      v1::RedeemTicketResponse* response) override;

 private:

  CoordinatorHost* const host_;
  AccessControl* const access_;
  const TicketOffice* const tickets_;
  PeerAddresses* const addresses_;
};

// Receives one file of the caller's worker; deletes itself.
grpc::ServerReadReactor<v1::UploadArtifactRequest>* StartUpload(
    CoordinatorHost* host, std::shared_ptr<const Caller> caller);

}  // namespace comera::server

#endif  // COMERA_SERVER_API_WORKER_SERVICE_H_
