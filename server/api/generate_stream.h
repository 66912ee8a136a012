#ifndef COMERA_SERVER_API_GENERATE_STREAM_H_
#define COMERA_SERVER_API_GENERATE_STREAM_H_

#include <map>
#include <memory>
#include <string>

#include "comera/v1/predict_service.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/api/worker_texts.h"
#include "server/auth/access.h"
#include "server/auth/ticket_office.h"
#include "server/host/coordinator_host.h"

namespace comera::server {

// The texts that run now; used on the loop only.
struct RunningTexts {
  int count = 0;
  std::map<std::string, int> of_user;
};

// ModelService.TryGenerate. `texts` may be stopped while the stream runs.
grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(
    CoordinatorHost* host, const TicketOffice* tickets,
    std::shared_ptr<WorkerTexts> texts, std::shared_ptr<RunningTexts> running,
    std::shared_ptr<const Caller> caller, const v1::GenerateRequest& request);

}  // namespace comera::server

#endif  // COMERA_SERVER_API_GENERATE_STREAM_H_
