// The three server streams of TrainingService.
#ifndef COMERA_SERVER_API_TRAINING_STREAMS_H_
#define COMERA_SERVER_API_TRAINING_STREAMS_H_

#include "comera/v1/training_service.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/auth/access.h"
#include "server/auth/ticket_office.h"
#include "server/host/coordinator_host.h"

namespace comera::server {

// Each returns a reactor that deletes itself and ends with PermissionDenied
// unless `caller` may see the job. `host` and `tickets` must outlive the
// server.
grpc::ServerWriteReactor<v1::WatchJobResponse>* StartWatch(
    CoordinatorHost* host, std::shared_ptr<const Caller> caller,
    const v1::WatchJobRequest& request);
grpc::ServerWriteReactor<v1::ReadLogResponse>* StartReadLog(
    CoordinatorHost* host, std::shared_ptr<const Caller> caller,
    const v1::ReadLogRequest& request);
grpc::ServerWriteReactor<v1::DownloadArtifactResponse>* StartDownload(
    CoordinatorHost* host, const TicketOffice* tickets,
    grpc::CallbackServerContext* context, std::shared_ptr<const Caller> caller,
    const v1::DownloadArtifactRequest& request);

}  // namespace comera::server

#endif  // COMERA_SERVER_API_TRAINING_STREAMS_H_
