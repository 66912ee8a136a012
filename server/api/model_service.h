#ifndef COMERA_SERVER_API_MODEL_SERVICE_H_
#define COMERA_SERVER_API_MODEL_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "comera/v1/model_service.grpc.pb.h"
#include "server/api/generate_stream.h"
#include "server/api/worker_texts.h"
#include "server/auth/access.h"
#include "server/auth/ticket_office.h"
#include "server/auth/unary_call.h"
#include "server/host/coordinator_host.h"
#include "server/runtime/event_loop.h"

namespace comera::server {

// ModelService over a CoordinatorHost. Thread-safe; never blocks a gRPC thread.
// Errors: model_service.proto.
class ModelService : public v1::ModelService::CallbackService {
 public:
  // All must outlive the server.
  ModelService(CoordinatorHost* host, AccessControl* access,
               const TicketOffice* tickets, const WorkerTexts::Options& texts)
      : host_(host),
        access_(access),
        tickets_(tickets),
        texts_(std::make_shared<WorkerTexts>(texts)) {}
  // After the server's end.
  ~ModelService() override { texts_->Stop(); }

  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::Model* response) override;
  grpc::ServerUnaryReactor* DeleteModel(
      grpc::CallbackServerContext* context,
      const v1::DeleteModelRequest* request,
      v1::DeleteModelResponse* response) override;
  grpc::ServerUnaryReactor* PinModel(grpc::CallbackServerContext* context,
                                     const v1::PinModelRequest* request,
                                     v1::Model* response) override;
  grpc::ServerUnaryReactor* UnpinModel(grpc::CallbackServerContext* context,
                                       const v1::UnpinModelRequest* request,
                                       v1::Model* response) override;
  grpc::ServerUnaryReactor* SetModelAlias(
      grpc::CallbackServerContext* context,
      const v1::SetModelAliasRequest* request, v1::Model* response) override;
  grpc::ServerUnaryReactor* GetModelAlias(
      grpc::CallbackServerContext* context,
      const v1::GetModelAliasRequest* request, v1::Model* response) override;
  grpc::ServerUnaryReactor* DeleteModelAlias(
      grpc::CallbackServerContext* context,
      const v1::DeleteModelAliasRequest* request,
      v1::DeleteModelAliasResponse* response) override;
  grpc::ServerUnaryReactor* ListJobCheckpoints(
      grpc::CallbackServerContext* context,
      const v1::ListJobCheckpointsRequest* request,
      v1::ListJobCheckpointsResponse* response) override;
  grpc::ServerUnaryReactor* CreateTicket(
      grpc::CallbackServerContext* context,
      const v1::CreateTicketRequest* request,
      v1::CreateTicketResponse* response) override;
  grpc::ServerWriteReactor<v1::GenerateResponse>* TryGenerate(
      grpc::CallbackServerContext* context,
      const v1::GenerateRequest* request) override;

 private:
  using Done = std::function<void(absl::StatusOr<v1::Model>)>;

  using ModelCall = UnaryCall<v1::Model>;

  // On the loop: shows the job's model of this name to those who may see it.
  void Describe(const JobDirectory::Entry& entry, const std::string& name,
                const ModelCall& call);
  grpc::ServerUnaryReactor* SetPinned(grpc::CallbackServerContext* context,
                                      const std::string& name, bool pinned,
                                      v1::Model* response);
  // What the job's first events and the model's files tell.
  void ReadEvents(v1::Model model, int64_t last, Done done);
  void ReadConfig(v1::Model model, Done done);
  void Remove(const std::string& name,
              std::function<void(const absl::Status&)> done);

  CoordinatorHost* const host_;
  AccessControl* const access_;
  const TicketOffice* const tickets_;
  const std::shared_ptr<WorkerTexts> texts_;
  const std::shared_ptr<RunningTexts> running_texts_ =
      std::make_shared<RunningTexts>();
  // Runs lists, each of which may look at all jobs.
  EventLoop lists_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_API_MODEL_SERVICE_H_
