#ifndef COMERA_SERVER_API_QUEUE_SERVICE_H_
#define COMERA_SERVER_API_QUEUE_SERVICE_H_

#include "comera/v1/queue_service.grpc.pb.h"
#include "server/auth/access.h"
#include "server/host/coordinator_host.h"

namespace comera::server {

// Queues over a CoordinatorHost. Thread-safe; never blocks a gRPC thread.
// Errors: queue_service.proto; PermissionDenied unless the caller may view, or
// for changes administer, the queue.
class QueueService : public v1::QueueService::CallbackService {
 public:
  // Both must outlive the server.
  QueueService(CoordinatorHost* host, AccessControl* access)
      : host_(host), access_(access) {}

  grpc::ServerUnaryReactor* CreateQueue(grpc::CallbackServerContext* context,
                                        const v1::CreateQueueRequest* request,
                                        v1::Queue* response) override;
  grpc::ServerUnaryReactor* GetQueue(grpc::CallbackServerContext* context,
                                     const v1::GetQueueRequest* request,
                                     v1::Queue* response) override;
  grpc::ServerUnaryReactor* ListQueues(
      grpc::CallbackServerContext* context,
      const v1::ListQueuesRequest* request,
      v1::ListQueuesResponse* response) override;
  grpc::ServerUnaryReactor* UpdateQueue(grpc::CallbackServerContext* context,
                                        const v1::UpdateQueueRequest* request,
                                        v1::Queue* response) override;
  grpc::ServerUnaryReactor* DeleteQueue(
      grpc::CallbackServerContext* context,
      const v1::DeleteQueueRequest* request,
      v1::DeleteQueueResponse* response) override;

 private:
  CoordinatorHost* const host_;
  AccessControl* const access_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_API_QUEUE_SERVICE_H_
